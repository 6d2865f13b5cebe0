"""The store on DynamoDB: PynamoDB describes the tables and writes single items, boto3's PartiQL batches the rest."""

from millrace.stores.dynamodb.blobs import S3Blobs
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.store import DynamoStore

__all__ = ["DynamoStore", "S3Blobs", "TableNames", "dynamodb_client"]

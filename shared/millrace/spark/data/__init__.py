"""The queue as data: its tables and their exports as DataFrames, a lake of everything, a time machine, a report.

facts    what was seen of one item of a table, and when          exports, scans   where facts come from
lives    what became of a message, by the facts of its id        read             all of it as DataFrames
"""

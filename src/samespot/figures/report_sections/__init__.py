"""The sections of the html report, one file a family; each gives None where its data is not there."""

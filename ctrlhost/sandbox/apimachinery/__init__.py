"""What the API's objects and names are made of: statuses, times, names, selectors. Imports no other room."""

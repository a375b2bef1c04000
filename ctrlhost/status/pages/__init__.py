"""What each page of the host shows, from the snapshot of its state. No page walks a cache or a whole queue."""

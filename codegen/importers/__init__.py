"""Read operators from msOpGen JSON files, CANN sources and aclnn documents as drafts of specs."""

/**
 * A line for the [Service] section of our long-running programs. V8's compilers allocate blocks of 32 KiB and more: as separate
 * mappings they return to the system when they are freed, in malloc's heap they leave gaps (mallopt(3)).
 */
export const NODE_MEMORY = 'Environment=MALLOC_MMAP_THRESHOLD_=32768';

/**
 * A line for the [Service] section of our long-running programs. V8's compilers allocate blocks of 32 KiB
 * and more. As separate mappings, freed blocks return to the system; in malloc's heap they would leave gaps
 * (mallopt(3)).
 */
export const NODE_MEMORY = 'Environment=MALLOC_MMAP_THRESHOLD_=32768';

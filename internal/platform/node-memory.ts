/**
 * For the [Service] section of programs of ours that stay: V8's compilers work in pieces of 32 KiB and more. As mappings
 * of their own they go back when they are done; in malloc's heap they leave holes for good (mallopt(3)).
 */
export const NODE_MEMORY = 'Environment=MALLOC_MMAP_THRESHOLD_=32768';

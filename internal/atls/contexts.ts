/** aTLS context of the init port, on a machine that becomes the first node of a cluster. */
export const INIT_CONTEXT = 'cluster/init/v1';

/** aTLS context of the join service. It has no cluster id, because a joining machine does not know it yet. */
export const JOIN_CONTEXT = 'cluster/join/v1';

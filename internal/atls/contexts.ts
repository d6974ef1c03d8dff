/** aTLS context of the owner's port on a machine that is to become the first of a cluster. */
export const INIT_CONTEXT = 'cluster/init/v1';

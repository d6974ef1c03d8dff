/** aTLS context of the join service. A machine that asks to be let in does not know the cluster's id before. */
export const JOIN_CONTEXT = 'cluster/join/v1';

/** Where the agent answers. Its directory is the gate: 0750, root and the join service's group. */
export const EVIDENCE_SOCKET = '/run/cluster/evidence/evidence.sock';

/**
 * The files that the agent keeps on disk: the paths of all files, the records in them, the key of the
 * machine, and the endpoints that an operator has added.
 */
export { type MachineIdentity, loadMachineIdentity } from './machine-identity.ts';
export { createNodeState, type NodeState } from './node-state.ts';
export { MAX_ENDPOINTS, OperatorEndpoints } from './operator-endpoints.ts';
export { AGENT_PATHS, DATA_DIRECTORIES, KEY_PATHS } from './paths.ts';

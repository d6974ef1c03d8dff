/**
 * Use cases of `cluster join`: root on a machine, over the agent's socket, or an owner at a workstation, over the attested
 * init port, says where the machine's cluster is and follows what becomes of it. Who is let in the cluster decides.
 */
export { parseDuration } from './duration.ts';
export { localChannel, remoteChannel } from './machine-channel.ts';
export { runJoin, type JoinOptions } from './join.ts';

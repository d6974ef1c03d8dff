/** What every part of the agent knows of this node's membership in a cluster: its type, and the checksummed file format of the records
 * that the agent keeps on disk. Imports nothing else of the agent. */
export { ChecksummedFile } from './checksummed-file.ts';
export { MembershipError } from './errors.ts';
export type { Membership } from './membership.ts';

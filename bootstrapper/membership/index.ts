/**
 * The membership of this node in a cluster, and the checksummed files in which the agent stores such records.
 * Every other directory of the agent may import this directory, which imports none of them.
 */
export { ChecksummedFile } from './checksummed-file.ts';
export { newestOnRecord } from './content-comparison.ts';
export { MembershipError } from './errors.ts';
export type { Membership, RemovalRecord } from './membership.ts';
export { membersOnRecord, type MemberOnRecord } from './members-on-record.ts';

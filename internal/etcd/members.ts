import { createClient } from '../rpc/index.ts';
import type { EtcdConnection } from './connection.ts';
import { EtcdError } from './errors.ts';
import type { CallOptions } from './key-space.ts';
import { Cluster, type Member as WireMember } from './proto/gen/etcdserverpb_pb.js';

/** One member as etcd's own membership has it. */
export interface Member {
  readonly id: bigint;
  /** Empty until the member has started for the first time. */
  readonly name: string;
  readonly peerUrls: readonly string[];
  readonly clientUrls: readonly string[];
  /** A learner gets everything and votes on nothing. */
  readonly isLearner: boolean;
}

/** Who belongs to the etcd cluster. Needs the root user, but for `list`. */
export class Members {
  readonly #connection: EtcdConnection;

  constructor(connection: EtcdConnection) {
    this.#connection = connection;
  }

  async list(options: CallOptions): Promise<readonly Member[]> {
    const { members } = await this.#connection.read('listing the members of etcd', options, (channel, call) =>
      createClient(Cluster, channel).memberList({ linearizable: true }, call),
    );
    return members.map(memberFromWire);
  }

  /** Adds a member that is not started yet, without a vote. */
  async addLearner(peerUrl: string, options: CallOptions): Promise<Member> {
    const doing = `adding ${peerUrl} to etcd as a learner`;
    const { member } = await this.#connection.write(doing, options, (channel, call) =>
      createClient(Cluster, channel).memberAdd({ peerUrls: [peerUrl], isLearner: true }, call),
    );
    if (member === undefined) throw new EtcdError('etcd-failed', `${doing}: the answer names no member`);
    return memberFromWire(member);
  }

  /** Gives a learner its vote. Refused (`etcd-member-not-ready`) until it has caught up. */
  async promote(id: bigint, options: CallOptions): Promise<void> {
    await this.#connection.write(`promoting member ${id.toString(16)} of etcd`, options, (channel, call) =>
      createClient(Cluster, channel).memberPromote({ id }, call),
    );
  }

  async remove(id: bigint, options: CallOptions): Promise<void> {
    await this.#connection.write(`removing member ${id.toString(16)} from etcd`, options, (channel, call) =>
      createClient(Cluster, channel).memberRemove({ id }, call),
    );
  }

  async setPeerUrl(id: bigint, peerUrl: string, options: CallOptions): Promise<void> {
    const doing = `moving member ${id.toString(16)} of etcd to ${peerUrl}`;
    await this.#connection.write(doing, options, (channel, call) =>
      createClient(Cluster, channel).memberUpdate({ id, peerUrls: [peerUrl] }, call),
    );
  }
}

function memberFromWire(member: WireMember): Member {
  const { id, name, peerUrls, clientUrls, isLearner } = member;
  return { id, name, peerUrls, clientUrls, isLearner };
}

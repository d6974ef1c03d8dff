import { createClient } from '../rpc/index.ts';
import type { EtcdConnection } from './connection.ts';
import { EtcdError } from './errors.ts';
import type { CallOptions } from './key-space.ts';
import { Cluster, type Member as WireMember } from './proto/gen/etcdserverpb_pb.js';

/** An etcd member, as etcd lists it. */
export interface Member {
  readonly id: bigint;
  /** Empty until the member has started for the first time. */
  readonly name: string;
  readonly peerUrls: readonly string[];
  readonly clientUrls: readonly string[];
  /** A learner replicates the data but cannot vote. */
  readonly isLearner: boolean;
}

/** Lists and changes the members of the etcd cluster. All but `list` need the root user. */
export class Members {
  readonly #connection: EtcdConnection;

  constructor(connection: EtcdConnection) {
    this.#connection = connection;
  }

  /** All members, linearizable. */
  async list(options: CallOptions): Promise<readonly Member[]> {
    const { members } = await this.#connection.read('listing etcd members', options, (channel, call) =>
      createClient(Cluster, channel).memberList({ linearizable: true }, call),
    );
    return members.map(memberFromWire);
  }

  /** Adds a member without a vote, before its process starts. */
  async addLearner(peerUrl: string, options: CallOptions): Promise<Member> {
    const doing = `adding etcd learner ${peerUrl}`;
    const { member } = await this.#connection.write(doing, options, (channel, call) =>
      createClient(Cluster, channel).memberAdd({ peerUrls: [peerUrl], isLearner: true }, call),
    );
    if (member === undefined) throw new EtcdError('etcd-failed', `${doing}: the response contains no member`);
    return memberFromWire(member);
  }

  /**
   * Makes a learner a voting member. @throws EtcdError `etcd-member-not-ready` until the learner has caught
   * up
   */
  async promote(id: bigint, options: CallOptions): Promise<void> {
    await this.#connection.write(`promoting etcd member ${id.toString(16)}`, options, (channel, call) =>
      createClient(Cluster, channel).memberPromote({ id }, call),
    );
  }

  /** Removes a member. */
  async remove(id: bigint, options: CallOptions): Promise<void> {
    await this.#connection.write(`removing etcd member ${id.toString(16)}`, options, (channel, call) =>
      createClient(Cluster, channel).memberRemove({ id }, call),
    );
  }

  /** Changes the URL at which the other members reach this member. */
  async setPeerUrl(id: bigint, peerUrl: string, options: CallOptions): Promise<void> {
    const doing = `changing the peer URL of etcd member ${id.toString(16)} to ${peerUrl}`;
    await this.#connection.write(doing, options, (channel, call) =>
      createClient(Cluster, channel).memberUpdate({ id, peerUrls: [peerUrl] }, call),
    );
  }
}

function memberFromWire(member: WireMember): Member {
  const { id, name, peerUrls, clientUrls, isLearner } = member;
  return { id, name, peerUrls, clientUrls, isLearner };
}

import { createClient } from '../rpc/index.ts';
import type { EtcdConnection } from './connection.ts';
import { etcdError } from './errors.ts';
import type { CallOptions } from './key-space.ts';
import {
  AlarmRequest_AlarmAction,
  AlarmType,
  Maintenance as MaintenanceService,
} from './proto/gen/etcdserverpb_pb.js';

/** The status of the member that responded. */
export interface MemberStatus {
  readonly memberId: bigint;
  readonly version: string;
  /** The newest revision that this member has applied. */
  readonly revision: bigint;
  readonly leaderId: bigint;
  readonly isLearner: boolean;
  readonly raftIndex: bigint;
  readonly raftAppliedIndex: bigint;
  readonly dbSizeBytes: number;
  readonly dbInUseBytes: number;
  readonly quotaBytes: number;
  readonly errors: readonly string[];
}

/** An alarm of a member. */
export interface Alarm {
  readonly memberId: bigint;
  readonly kind: 'no-space' | 'corrupt';
}

/** The hash of the content of one member. */
export interface ContentHash {
  readonly hash: number;
  /** The compaction before the hash was computed; -1 before the first one. */
  readonly compactRevision: bigint;
  /** The revision up to which keys and values are in the hash. */
  readonly hashRevision: bigint;
}

/** Status, alarms, space and snapshots. Needs the root user. */
export class Maintenance {
  readonly #connection: EtcdConnection;

  constructor(connection: EtcdConnection) {
    this.#connection = connection;
  }

  /** The status of the current member. */
  async status(options: CallOptions): Promise<MemberStatus> {
    const answer = await this.#connection.read('reading etcd status', options, (channel, call) =>
      createClient(MaintenanceService, channel).status({}, call),
    );
    return {
      memberId: answer.header?.memberId ?? 0n,
      version: answer.version,
      revision: answer.header?.revision ?? 0n,
      leaderId: answer.leader,
      isLearner: answer.isLearner,
      raftIndex: answer.raftIndex,
      raftAppliedIndex: answer.raftAppliedIndex,
      dbSizeBytes: Number(answer.dbSize),
      dbInUseBytes: Number(answer.dbSizeInUse),
      quotaBytes: Number(answer.dbSizeQuota),
      errors: answer.errors,
    };
  }

  /** The alarms of all members. */
  async alarms(options: CallOptions): Promise<readonly Alarm[]> {
    const { alarms } = await this.#connection.read('listing etcd alarms', options, (channel, call) =>
      createClient(MaintenanceService, channel).alarm({ action: AlarmRequest_AlarmAction.GET }, call),
    );
    return alarms.map(({ memberId, alarm }) => ({
      memberId,
      kind: alarm === AlarmType.NOSPACE ? 'no-space' : 'corrupt',
    }));
  }

  /**
   * Returns the space of deleted history to the file system. The member does not serve requests in that time, so
   * callers defragment one member after the other. For a client that has only one endpoint, because the call goes to
   * the current member.
   */
  async defragment(options: CallOptions): Promise<void> {
    await this.#connection.write('defragmenting etcd', options, (channel, call) =>
      createClient(MaintenanceService, channel).defragment({}, call),
    );
  }

  /** Clears an alarm. etcd raises it again with the next write that does not fit. */
  async disarm({ memberId, kind }: Alarm, options: CallOptions): Promise<void> {
    const alarm = kind === 'no-space' ? AlarmType.NOSPACE : AlarmType.CORRUPT;
    const action = AlarmRequest_AlarmAction.DEACTIVATE;
    await this.#connection.write('clearing an etcd alarm', options, (channel, call) =>
      createClient(MaintenanceService, channel).alarm({ action, memberId, alarm }, call),
    );
  }

  /**
   * Hash of all keys and values up to a revision. The hashes of two members are comparable if both other figures are equal. The
   * member reads its whole database for it, unless the revision is the one of a compaction: then it answers with the hash
   * that it computed during that compaction. A member that has not applied the revision yet refuses (`etcd-failed`).
   */
  async hash(revision: bigint, options: CallOptions): Promise<ContentHash> {
    const { hash, compactRevision, hashRevision } = await this.#connection.read(
      'hashing the data of etcd',
      options,
      (channel, call) => createClient(MaintenanceService, channel).hashKV({ revision }, call),
    );
    return { hash, compactRevision, hashRevision };
  }

  /** The database file in chunks; its last 32 bytes are the SHA-256 of the rest. */
  async *snapshot(signal: AbortSignal): AsyncGenerator<Uint8Array> {
    try {
      const parts = createClient(MaintenanceService, this.#connection.channel).snapshot({}, { signal });
      for await (const { blob } of parts) yield blob;
    } catch (error) {
      throw etcdError('taking a snapshot of etcd', error);
    }
  }
}

import type { DescService } from '@bufbuild/protobuf';
import { AuditLog } from '../../internal/auditlog/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { MemberIdentity } from '../../internal/pki/index.ts';
import { implement, type Handlers, type Implementation } from '../../internal/rpc/index.ts';
import type { OwnerDocuments } from '../ownerdocs/index.ts';
import { Curator as CuratorContract } from '../curatorproto/gen/curator_pb.js';
import type { Caller } from './access/authorize-caller.ts';
import { NodeFeed } from './nodes/node-feed.ts';
import { authorizedHandlers } from './access/authorized-handlers.ts';
import { Heartbeats } from './nodes/heartbeats.ts';
import { OpenCalls } from './access/open-calls.ts';
import { Mutations } from './changes/mutations.ts';
import { nodeHandlers } from './nodes/node-handlers.ts';
import { NodeStore } from './nodes/node-store.ts';
import { readHandlers, type CuratorFacts } from './nodes/read-handlers.ts';
import type { NodeView } from './nodes/node-wire.ts';
import { writeHandlers } from './changes/write-handlers.ts';

export interface CuratorOptions {
  /** The cluster's part of etcd. */
  readonly etcd: KeySpace;
  /** The node that this curator runs on. */
  readonly nodeId: string;
  readonly facts: CuratorFacts;
  /** What owners have signed. */
  readonly ownerDocs: OwnerDocuments;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The cluster's state API on one control-plane node. Holds nothing that etcd does not. */
export class Curator {
  readonly service: Implementation<MemberIdentity>;
  readonly #etcd: KeySpace;
  readonly #nodes: NodeStore;
  /** The one of this process: whatever else decides here appends to it. */
  readonly audit: AuditLog;
  readonly mutations: Mutations;
  readonly #feed: NodeFeed;
  readonly #memberships: OpenCalls;

  constructor(options: CuratorOptions) {
    const { etcd, clock, log } = options;
    this.#etcd = etcd;
    this.#nodes = new NodeStore(etcd);
    this.audit = new AuditLog({ etcd });
    this.mutations = new Mutations({ etcd, clock, audit: this.audit });
    this.#memberships = new OpenCalls({ etcd, view: (nodeId) => this.#feed.view(nodeId) });
    this.#feed = new NodeFeed({
      etcd,
      clock,
      log: log.child('feed'),
      onTouched: (nodeIds) => this.#memberships.checkNodes(nodeIds),
    });
    const nodes = this.#nodes;
    const inside = {
      ...readHandlers({ etcd, nodes, nodeId: options.nodeId, facts: options.facts }),
      ...writeHandlers({
        etcd,
        nodes,
        clock,
        ownerDocs: options.ownerDocs,
        mutations: this.mutations,
        facts: options.facts,
      }),
      ...nodeHandlers({ etcd, clock, feed: this.#feed, heartbeats: new Heartbeats({ etcd, clock }) }),
    };
    this.service = this.authorize(CuratorContract, inside);
  }

  /** Another contract of members, behind the same door. */
  authorize<S extends DescService>(service: S, inside: Handlers<S, Caller>): Implementation<MemberIdentity> {
    return implement(
      service,
      authorizedHandlers(service, inside, { etcd: this.#etcd, openCalls: this.#memberships }),
    );
  }

  /** All nodes as etcd has them now. */
  async listNodes(signal: AbortSignal): Promise<readonly NodeView[]> {
    return (await this.#nodes.list(signal)).nodes;
  }

  /** All nodes as they come, for what decides nothing. */
  get nodes(): NodeFeed {
    return this.#feed;
  }

  /** Follows etcd for all watches and streams until the signal fires; rejects with its reason or what broke. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#feed.run(signal), this.#memberships.run(signal)]);
  }
}

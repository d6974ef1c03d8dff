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
import { NodeClocks } from './nodes/node-clocks.ts';
import { OpenCalls } from './access/open-calls.ts';
import { Mutations } from './changes/mutations.ts';
import { nodeHandlers } from './nodes/node-handlers.ts';
import { NodeStore } from './nodes/node-store.ts';
import { readHandlers, type CuratorFacts } from './nodes/read-handlers.ts';
import type { NodeView } from './nodes/node-wire.ts';
import { writeHandlers } from './changes/write-handlers.ts';

/** Dependencies of a curator. */
export interface CuratorOptions {
  /** The state etcd, below the prefix of the cluster. */
  readonly etcd: KeySpace;
  /** The node that this curator runs on. */
  readonly nodeId: string;
  readonly facts: CuratorFacts;
  readonly ownerDocs: OwnerDocuments;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The curator of one control-plane node. It has no state of its own that lasts: everything but the clocks of nodes is in etcd. */
export class Curator {
  readonly service: Implementation<MemberIdentity>;
  readonly #etcd: KeySpace;
  readonly #ownerDocs: OwnerDocuments;
  readonly #nodes: NodeStore;
  /** The audit log of this process, which the join service uses too. */
  readonly audit: AuditLog;
  readonly mutations: Mutations;
  readonly #feed: NodeFeed;
  readonly #memberships: OpenCalls;

  constructor(options: CuratorOptions) {
    const { etcd, clock, log } = options;
    this.#etcd = etcd;
    this.#ownerDocs = options.ownerDocs;
    this.#nodes = new NodeStore(etcd);
    this.audit = new AuditLog({ etcd });
    this.mutations = new Mutations({ etcd, clock, audit: this.audit });
    this.#memberships = new OpenCalls({ etcd, view: (nodeId) => this.#feed.view(nodeId) });
    this.#feed = new NodeFeed({
      etcd,
      clock,
      log: log.child('feed'),
      onChanged: (nodeIds) => this.#memberships.checkNodes(nodeIds),
    });
    const nodes = this.#nodes;
    const clocks = new NodeClocks(clock);
    const handlers = {
      ...readHandlers({ ...options, nodes, feed: this.#feed, clocks }),
      ...writeHandlers({ ...options, nodes, mutations: this.mutations }),
      ...nodeHandlers({ etcd, clock, clocks, feed: this.#feed, heartbeats: new Heartbeats({ etcd, clock }) }),
    };
    this.service = this.authorize(CuratorContract, handlers);
  }

  /** Serves another contract to members. Callers are authorized in the same way. */
  authorize<S extends DescService>(
    service: S,
    handlers: Handlers<S, Caller>,
  ): Implementation<MemberIdentity> {
    return implement(
      service,
      authorizedHandlers(service, handlers, {
        etcd: this.#etcd,
        ownerDocs: this.#ownerDocs,
        openCalls: this.#memberships,
      }),
    );
  }

  /** All nodes, read linearizably. */
  async listNodes(signal: AbortSignal): Promise<readonly NodeView[]> {
    return (await this.#nodes.list(signal)).nodes;
  }

  /** A cache of all nodes, not for decisions. */
  get nodes(): NodeFeed {
    return this.#feed;
  }

  /** Watches etcd for all watches and streams until the signal fires; rejects with its reason or an error of etcd. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#feed.run(signal), this.#memberships.run(signal)]);
  }
}

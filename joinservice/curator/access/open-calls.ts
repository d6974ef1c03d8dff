import { childSignal, type ChildSignal } from '../../../internal/cleanup/index.ts';
import type { KeySpace } from '../../../internal/etcd/index.ts';
import type { MemberIdentity } from '../../../internal/pki/index.ts';
import { OPERATORS_PREFIX } from '../../../internal/records/index.ts';
import { isMemberState } from '../../../internal/role/index.ts';
import { membershipKeyOf } from './authorize-caller.ts';
import { CuratorError } from '../errors.ts';
import type { NodeView } from '../nodes/node-wire.ts';

/**
 * Long calls of members, ended as soon as their membership is: an open stream must not outlive what admitted it.
 * Short calls ask etcd each time and need none of this.
 */
export class OpenCalls {
  readonly #etcd: KeySpace;
  readonly #view: (nodeId: string) => NodeView | undefined;
  readonly #nodes = new Map<string, Set<ChildSignal>>();
  readonly #operators = new Map<string, Set<ChildSignal>>();

  constructor(options: {
    readonly etcd: KeySpace;
    /** A node as the feed has it. */
    readonly view: (nodeId: string) => NodeView | undefined;
  }) {
    this.#etcd = options.etcd;
    this.#view = options.view;
  }

  /** A signal for a call of this member. To be taken before the member is admitted, so that no end is missed. */
  track(identity: MemberIdentity, signal: AbortSignal): ChildSignal {
    const child = childSignal(signal);
    const [group, key] =
      identity.kind === 'node'
        ? [this.#nodes, identity.nodeId]
        : [this.#operators, membershipKeyOf(identity)];
    const members = group.get(key) ?? new Set();
    group.set(key, members.add(child));
    return {
      ...child,
      [Symbol.dispose]: () => {
        child[Symbol.dispose]();
        members.delete(child);
        if (members.size === 0 && group.get(key) === members) group.delete(key);
      },
    };
  }

  /** To be called with each change the feed sees. */
  checkNodes(nodeIds: Iterable<string>): void {
    for (const nodeId of nodeIds) {
      if (!this.#nodes.has(nodeId)) continue;
      const view = this.#view(nodeId);
      if (view === undefined || !isMemberState(view.record.state))
        end(this.#nodes.get(nodeId), `node ${nodeId}`);
    }
  }

  /**
   * Follows the records of operators until the signal fires. Any change of one ends its calls: it is admitted anew. With
   * progress, because a list does not tell whether a record that is there has changed.
   */
  async run(signal: AbortSignal): Promise<void> {
    for await (const event of this.#etcd.watch(OPERATORS_PREFIX, { signal, withProgress: true })) {
      if (event.kind === 'relist') {
        const there = new Set(event.entries.map(({ key }) => key));
        for (const [key, calls] of this.#operators) if (!there.has(key)) end(calls, key);
      } else if (event.kind === 'changes') {
        for (const change of event.changes) {
          const key = change.kind === 'put' ? change.entry.key : change.key;
          end(this.#operators.get(key), key);
        }
      }
    }
  }
}

function end(calls: Iterable<ChildSignal> | undefined, who: string): void {
  for (const call of calls ?? [])
    call.abort(new CuratorError('curator-not-member', `ending a call of ${who}: its membership has changed`));
}

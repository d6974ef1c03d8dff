import { childSignal, type ChildSignal } from '../../../internal/cleanup/index.ts';
import type { KeySpace } from '../../../internal/etcd/index.ts';
import type { MemberIdentity } from '../../../internal/pki/index.ts';
import { OPERATORS_PREFIX } from '../../../internal/records/index.ts';
import { isMemberState } from '../../../internal/role/index.ts';
import { membershipKeyOf } from './authorize-caller.ts';
import { CuratorError } from '../errors.ts';
import type { NodeView } from '../nodes/node-wire.ts';

/**
 * Open streams of members, which are closed as soon as the membership of the caller ends. Unary calls need none of this, since
 * each of them is authorized from etcd.
 */
export class OpenCalls {
  readonly #etcd: KeySpace;
  readonly #view: (nodeId: string) => NodeView | undefined;
  readonly #nodes = new Map<string, Set<ChildSignal>>();
  readonly #operators = new Map<string, Set<ChildSignal>>();

  constructor(options: {
    readonly etcd: KeySpace;
    /** Looks up a node in the cache of the node feed; undefined if it has no record. */
    readonly view: (nodeId: string) => NodeView | undefined;
  }) {
    this.#etcd = options.etcd;
    this.#view = options.view;
  }

  /** A signal that fires when the membership ends. Call it before the caller is authorized, so that no end is missed. */
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

  /** Ends calls of nodes that are no longer members. Called with each change of the node feed. */
  checkNodes(nodeIds: Iterable<string>): void {
    for (const nodeId of nodeIds) {
      if (!this.#nodes.has(nodeId)) continue;
      const view = this.#view(nodeId);
      if (view === undefined || !isMemberState(view.record.state))
        end(this.#nodes.get(nodeId), `node ${nodeId}`);
    }
  }

  /**
   * Watches the records of operators until the signal fires. Any change of a record ends the calls of that
   * operator, who then calls again. Progress notifications let the watch resume where it stopped: a new list
   * would not show which records changed in between.
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
    call.abort(
      new CuratorError('curator-not-member', `closing a stream of ${who}: its membership has changed`),
    );
}

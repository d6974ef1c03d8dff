import { createHash } from 'node:crypto';
import type { Clock } from '../../internal/clock/index.ts';
import { isAbort } from '../../internal/errors/index.ts';
import type { Entry, KeySpace } from '../../internal/etcd/index.ts';
import { EventValue, type Readable } from '../../internal/event/index.ts';
import { RepeatedProblem, type Logger } from '../../internal/logging/index.ts';
import {
  documentKey,
  knownMachineShape,
  MAX_KNOWN_MACHINES,
  READMISSIONS_PREFIX,
  records,
  REMOVED_PREFIX,
  type KnownMachine,
  type RemovedRecord,
} from '../../internal/records/index.ts';
import { readCluster } from '../curator/index.ts';
import type { OwnerDocuments } from '../ownerdocs/index.ts';

/** Removals that follow one another within this time wake the nodes once. */
const SETTLE_MS = 2_000;
const RETRY_MS = 10_000;

/** The entries below a prefix, by key. */
type Watched = Map<string, Entry>;

/** The machines that the cluster refuses, and a hash that changes with each removal and readmission. */
interface RefusedMachines {
  readonly epoch: number;
  /** Lower-case hex. */
  readonly sha256: string;
  /** The newest removal first. */
  readonly machines: readonly KnownMachine[];
}

/** Dependencies of the list. */
interface RemovedListPorts {
  readonly etcd: KeySpace;
  readonly ownerDocs: Pick<OwnerDocuments, 'whyNotReadmitted'>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The machines that the cluster refuses, computed once for thousands of nodes, and only after a removal or a readmission. */
export class RemovedList {
  readonly #ports: RemovedListPorts;
  readonly #list = new EventValue<RefusedMachines>();
  readonly #hash = new EventValue<string>();

  constructor(ports: RemovedListPorts) {
    this.#ports = ports;
    this.#hash.set('');
  }

  /** The hash of the current list; empty before the first one, so that nobody waits for it. */
  get value(): Readable<string> {
    return this.#hash;
  }

  /** The current list; waits for the first one. */
  async fetch(signal: AbortSignal): Promise<RefusedMachines> {
    using watcher = this.#list.watch();
    return await watcher.next(signal);
  }

  /** Follows etcd until the signal fires. It reads nothing else for a list without readmissions. */
  async run(signal: AbortSignal): Promise<void> {
    const epoch = await this.#repeat(async () => (await readCluster(this.#ports.etcd, signal)).epoch, signal);
    const [removed, readmissions]: readonly [Watched, Watched] = [new Map(), new Map()];
    const changes = new EventValue<number>();
    const waitingFor = new Set([REMOVED_PREFIX, READMISSIONS_PREFIX]);
    let count = 0;
    const onRead = (prefix: string): void => {
      waitingFor.delete(prefix);
      if (waitingFor.size === 0) changes.set((count += 1));
    };
    await Promise.all([
      this.#watch(REMOVED_PREFIX, removed, { onRead, signal }),
      this.#watch(READMISSIONS_PREFIX, readmissions, { onRead, signal }),
      this.#follow(changes, () => this.#listFrom(epoch, removed, readmissions, signal), signal),
    ]);
  }

  async #watch(
    prefix: string,
    entries: Watched,
    { onRead, signal }: { readonly onRead: (prefix: string) => void; readonly signal: AbortSignal },
  ): Promise<void> {
    for await (const event of this.#ports.etcd.watch(prefix, { signal })) {
      if (event.kind !== 'relist' && event.kind !== 'changes') continue;
      if (event.kind === 'relist') {
        entries.clear();
        for (const entry of event.entries) entries.set(entry.key, entry);
      } else {
        for (const change of event.changes)
          if (change.kind === 'put') entries.set(change.entry.key, change.entry);
          else entries.delete(change.key);
      }
      onRead(prefix);
    }
  }

  async #follow(
    changes: Readable<number>,
    read: () => Promise<RefusedMachines>,
    signal: AbortSignal,
  ): Promise<never> {
    using watcher = changes.watch();
    for (;;) {
      await watcher.next(signal);
      await this.#ports.clock.sleep(SETTLE_MS, signal);
      this.#publish(await this.#repeat(read, signal));
    }
  }

  /** Repeats a read until it succeeds. The same error is logged once. */
  async #repeat<T>(read: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const { clock, log } = this.#ports;
    const problem = new RepeatedProblem();
    for (;;) {
      try {
        return await read();
      } catch (error) {
        if (isAbort(error, signal)) throw error;
        if (problem.isNew(error)) log.warn('removed machines not read, keeping the previous list', { error });
        await clock.sleep(RETRY_MS, signal);
      }
    }
  }

  #publish(list: RefusedMachines): void {
    const now = this.#list.peek();
    if (now.set && now.value.sha256 === list.sha256) return;
    this.#list.set(list);
    this.#hash.set(list.sha256);
  }

  async #listFrom(
    epoch: number,
    removed: Watched,
    readmissions: Watched,
    signal: AbortSignal,
  ): Promise<RefusedMachines> {
    const all = [...removed.values()]
      .map(({ key, value }) => records.removed.decode(key, value))
      .toSorted((a, b) => b.removedMs - a.removedMs || (a.identity < b.identity ? -1 : 1));
    const signed = new Set(readmissions.keys());
    const isRefused = await Promise.all(all.map((record) => this.#isRefused(record, signed, signal)));
    const machines = all
      .filter((_, at) => isRefused[at])
      .flatMap((record) => knownMachineShape.safeParse(record).data ?? [])
      .slice(0, MAX_KNOWN_MACHINES);
    const content = all.map(({ identity, removal, nodeId, name }, at) => {
      return [identity, removal, nodeId, name, isRefused[at]];
    });
    const sha256 = createHash('sha256')
      .update(JSON.stringify([epoch, content]))
      .digest('hex');
    return { epoch, sha256, machines };
  }

  /** Most removals have no readmission, and need no read of their own. */
  async #isRefused(
    record: RemovedRecord,
    signed: ReadonlySet<string>,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (!signed.has(documentKey('readmission', record.identity))) return true;
    return (await this.#ports.ownerDocs.whyNotReadmitted(record, signal)) !== undefined;
  }
}

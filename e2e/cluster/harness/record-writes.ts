import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Harness } from '../../machines/harness.ts';
import { etcdctlArgv } from './node-shell.ts';

const PREFIX = '/cluster/';
/** Keys that every node writes periodically. They are ignored. */
const PULSE = /^nodes\/[^/]+\/(status|heartbeat)$/;

interface Watched {
  readonly Events?: readonly {
    readonly type?: string;
    readonly kv: { readonly key: string; readonly value?: string };
  }[];
}

/** Passes each output line of a program to `onLine`. Disposing it ends the program. */
export class OutputLines implements Disposable {
  readonly #program: ChildProcess;

  constructor(program: ChildProcess, onLine: (line: string) => void) {
    if (program.stdout === null) throw new Error('a program without an output');
    this.#program = program;
    createInterface({ input: program.stdout }).on('line', onLine);
  }

  [Symbol.dispose](): void {
    this.#program.kill();
  }
}

/** Watches the keys of this project in etcd, and calls `onWrite` with a description of each transaction. */
export function recordWrites(bench: Harness, cluster: string, onWrite: (what: string) => void): OutputLines {
  const watch = [...etcdctlArgv('root'), 'watch', '--prefix', PREFIX, '--write-out', 'json'];
  const program = bench.startCli('mini', 'exec', '--name', cluster, 'n1', '--', ...watch);
  return new OutputLines(program, (line) => {
    const { Events = [] } = JSON.parse(line) as Watched;
    const what = Events.map(({ type, kv }) => nameOf(kv, type === 'DELETE')).filter((name) => name !== '');
    if (what.length > 0) onWrite([...new Set(what)].toSorted().join(', '));
  });
}

/**
 * Describes a written etcd record: the kind from its key, then the fields `state`, `method` (an RPC method) and
 * `verdict` from its value. The description has no IDs, so it is the same for every machine that joins.
 */
function nameOf(
  { key, value = '' }: { readonly key: string; readonly value?: string },
  isGone: boolean,
): string {
  const path = Buffer.from(key, 'base64').toString('utf8').slice(PREFIX.length);
  if (PULSE.test(path)) return '';
  const kind = path
    .replace(/^(node-names|mutations)\/.*/, '$1')
    .replace(/\/(node-[0-9a-f]+|tpm-ek:[0-9a-f]+|\d+)/g, '');
  if (isGone) return `${kind} gone`;
  const { state, method, detail } = saidIn(Buffer.from(value, 'base64').toString('utf8'));
  return [kind, state, method, detail?.verdict].filter((each) => each !== undefined).join(' ');
}

interface Said {
  readonly state?: string;
  readonly method?: string;
  readonly detail?: { readonly verdict?: string };
}

function saidIn(text: string): Said {
  return text.startsWith('{') ? (JSON.parse(text) as Said) : {};
}

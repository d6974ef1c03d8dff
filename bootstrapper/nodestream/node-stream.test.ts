import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { Mailbox } from '../../internal/event/index.ts';
import type { Command, CommandRunner } from '../../internal/exec/index.ts';
import type { LogRecord } from '../../internal/logging/index.ts';
import type { Client } from '../../internal/rpc/index.ts';
import {
  type OpenSessionResponse,
  OpenSessionResponseSchema,
  type NodeStreams,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { readAuditLog } from './audit-log.ts';
import { runNodeSession } from './node-session.ts';
import { NodeStreamError } from './errors.ts';
import { LogRing } from './log-ring.ts';
import type { TaskPorts } from './tasks.ts';
import { packBytes, packLines, packStream } from './chunks.ts';
import { READABLE_UNITS, readUnitLogs } from './unit-logs.ts';
import { ETCD_INSTANCES } from '../consensus/index.ts';

const never = new AbortController().signal;
const record = (path: string, message: string): LogRecord => ({
  timeMs: 0,
  level: 'info',
  path,
  message,
  fields: {},
});
const messages = (lines: readonly string[]): unknown[] =>
  lines.map((line) => (JSON.parse(line) as { message: string }).message);

describe('LogRing', () => {
  test('returns the last lines of a runnable, and of its children unless exact', () => {
    const ring = new LogRing();
    for (const [path, message] of [
      ['root.a', '1'],
      ['root.a.b', '2'],
      ['root.ab', '3'],
      ['root.a', '4'],
    ] as const)
      ring.add(record(path, message));
    expect(messages(ring.last({ path: 'root.a', exact: false }, 10))).toEqual(['1', '2', '4']);
    expect(messages(ring.last({ path: 'root.a', exact: true }, 10))).toEqual(['1', '4']);
    expect(messages(ring.last({ path: '', exact: false }, 2))).toEqual(['3', '4']);
    expect(ring.last({ path: '', exact: false }, 0)).toEqual([]);
  });

  test('is bounded and drops the oldest lines', () => {
    const ring = new LogRing();
    for (let i = 0; i < 10_000; i++) ring.add(record('a', `${i} ${'x'.repeat(500)}`));
    const kept = ring.last({ path: '', exact: false }, 10_000);
    expect(kept.join('').length).toBeLessThan(600_000);
    expect(messages(kept).at(-1)).toContain('9999 ');
  });

  test('sends new lines to a follower, and counts the lines that a slow follower missed', async () => {
    const ring = new LogRing();
    const lines = ring.follow({ path: 'a', exact: false }, never);
    const first = lines.next();
    ring.add(record('b', 'not wanted'));
    ring.add(record('a', 'one'));
    expect(messages((await first).value?.lines ?? [])).toEqual(['one']);
    for (let i = 0; i < 1_005; i++) ring.add(record('a', `${i}`));
    const { value } = await lines.next();
    expect(value?.dropped).toBe(5);
    expect(messages(value?.lines ?? [])[0]).toBe('5');
    await lines.return(undefined);
  });
});

describe('chunks of a log', () => {
  test('are whole lines of at most 32 KiB; lost lines are reported once', () => {
    const parts = [...packLines(['a'.repeat(20_000), 'b'.repeat(20_000), 'c'.repeat(100_000)], 3)];
    expect(parts.map(({ data }) => data.length)).toEqual([20_001, 20_001, 32_768]);
    expect(parts.map(({ dropped }) => dropped)).toEqual([3n, 0n, 0n]);
    for (const { data } of parts) expect(data.at(-1)).toBe(10);
  });

  test('of a stream have full size, except the last one', async () => {
    const pieces = async function* () {
      await Promise.resolve();
      for (let i = 0; i < 100; i++) yield new Uint8Array(1_000).fill(i);
    };
    const parts: Uint8Array[] = [];
    for await (const { data } of packStream(pieces())) parts.push(data);
    expect(parts.map(({ length }) => length)).toEqual([32_768, 32_768, 32_768, 1_696]);
    expect(Buffer.concat(parts)[50_500]).toBe(50);
  });

  test('of bytes lose no byte', () => {
    const bytes = new Uint8Array(70_000).map((_, i) => i);
    expect(Buffer.concat([...packBytes(bytes)].map(({ data }) => data)).equals(bytes)).toBe(true);
  });
});

class FakeJournal implements CommandRunner {
  readonly commands: Command[] = [];
  readonly #lines: readonly string[];
  constructor(lines: readonly string[]) {
    this.#lines = lines;
  }
  async run(command: Command) {
    this.commands.push(command);
    for (const line of this.#lines) command.onLine?.(line, 'stdout');
    if (command.argv.includes('--follow'))
      await new Promise((_, reject) => {
        command.signal.addEventListener('abort', () => reject(command.signal.reason as Error));
      });
    return { exitCode: 0, stdout: '', stderr: '' };
  }
}

describe('readUnitLogs()', () => {
  const text = async (parts: AsyncIterable<{ data: Uint8Array }>): Promise<string> => {
    let all = '';
    for await (const { data } of parts) all += Buffer.from(data).toString();
    return all;
  };

  test('returns the journal of the named units', async () => {
    const journal = new FakeJournal(['one', 'two']);
    const options = { units: ['kubelet.service'], backlog: 5, follow: false };
    expect(await text(readUnitLogs(journal, options, never))).toBe('one\ntwo\n');
    expect(journal.commands[0]?.argv).toEqual(
      expect.arrayContaining(['--unit=kubelet.service', '--lines=5']),
    );
  });

  test('refuses units that do not belong to the cluster, and runs no command', async () => {
    const journal = new FakeJournal([]);
    const options = { units: ['sshd.service'], backlog: 5, follow: false };
    await expect(text(readUnitLogs(journal, options, never))).rejects.toMatchObject({
      code: 'nodestream-unit-unknown',
      message: expect.stringContaining('kubelet.service') as unknown,
    });
    expect(journal.commands).toEqual([]);
  });

  test('ends journalctl when the reader stops', async () => {
    const journal = new FakeJournal(['one']);
    const options = { units: ['kubelet.service'], backlog: 5, follow: true };
    for await (const _ of readUnitLogs(journal, options, never)) break;
    expect(journal.commands[0]?.signal.aborted).toBe(true);
  });
});

describe('readAuditLog()', () => {
  const options = { backlog: 5, follow: true };
  const filesWith = async (path?: string): Promise<MemoryFiles> => {
    const files = new MemoryFiles();
    if (path === undefined) return files;
    await files.makeDirectory('/var/log/kubernetes');
    await files.writeAtomic(path, '');
    return files;
  };

  test('follows the audit log of the API server into the next file', async () => {
    const commands = new FakeJournal(['{"kind":"Event"}']);
    const files = await filesWith('/var/log/kubernetes/audit.log');
    for await (const { data: bytes } of readAuditLog({ commands, files }, options, never)) {
      expect(Buffer.from(bytes).toString()).toBe('{"kind":"Event"}\n');
      break;
    }
    expect(commands.commands[0]?.argv).toEqual(['tail', '--lines=5', '-F', '/var/log/kubernetes/audit.log']);
    expect(commands.commands[0]?.signal.aborted).toBe(true);
  });

  test('refuses a node without an audit log, and runs no command', async () => {
    const commands = new FakeJournal([]);
    const lines = readAuditLog({ commands, files: await filesWith() }, options, never);
    await expect(lines.next()).rejects.toMatchObject({ code: 'nodestream-audit-missing' });
    expect(commands.commands).toEqual([]);
  });
});

/** A fake curator: the test sends its messages, and it records the messages of the node. */
function setUp(overrides: Partial<TaskPorts> = {}) {
  const orders = new Mailbox<OpenSessionResponse>(64);
  const said: { case: string | undefined; value: Record<string, unknown> }[] = [];
  const heard = new Mailbox<'more'>(1000);
  const client: Pick<Client<typeof NodeStreams>, 'openSession'> = {
    openSession: (requests, { signal }) => {
      void (async () => {
        for await (const { message } of requests) {
          said.push(message as never);
          heard.push('more');
        }
      })().catch(() => undefined);
      return orders.read(signal);
    },
  };
  const ring = new LogRing();
  const ports: TaskPorts = {
    ring,
    commands: new FakeJournal([]),
    files: new MemoryFiles(),
    evidence: { variant: 'tpm', make: async (nonce) => Buffer.from(`quote of ${nonce.length}`) },
    reset: async () => undefined,
    disk: {
      describe: async () => new Uint8Array(),
      approve: async () => undefined,
      rotate: async ({ uuid }) => Buffer.from(`new keys of ${uuid}`),
    },
    power: async () => undefined,
    probe: async ({ removedNodeId, heldKeys, generation }) =>
      Buffer.from(`${removedNodeId} ${heldKeys} ${generation}`),
    metrics: async () => 'up 1\n',
    backup: async function* ({ certificate }) {
      yield certificate;
      yield Buffer.alloc(40_000, 1);
    },
    fetchBackup: async function* (name) {
      yield Buffer.from(`file ${name}`);
    },
    ...overrides,
  };
  const stop = new AbortController();
  const states: string[] = [];
  const options = { agentVersion: '1.2.3', ports, onAccepted: () => states.push('taken') };
  const ended = runNodeSession(client, options, stop.signal);
  const order = (message: unknown) => orders.push(create(OpenSessionResponseSchema, { message } as never));
  const counts = heard.read(never);
  const until = async (count: number) => {
    while (said.length < count) await counts.next();
    return said;
  };
  return { order, orders, until, said, ended, stop, ring, states };
}

const data = (saying: { value: Record<string, unknown> } | undefined): string =>
  Buffer.from((saying?.value['data'] as Uint8Array | undefined) ?? []).toString();

test('operators can read the logs of both etcd members', () => {
  expect(READABLE_UNITS).toEqual(
    expect.arrayContaining(Object.values(ETCD_INSTANCES).map(({ unit }) => unit)),
  );
});

describe('runNodeSession()', () => {
  test('runs the removal probe for the node that the curator names and reports the result', async () => {
    const { order, orders, until, ended } = setUp();
    const what = { case: 'probe', value: { removedNodeId: 'node-0', heldKeys: true, generation: 2n } };
    order({ case: 'task', value: { task: 1n, credit: 16, what } });
    expect(data((await until(3))[1])).toBe('node-0 true 2');
    orders.close();
    await ended;
  });

  test('passes the owner’s order for new disk keys on to the agent, and reports what it has done', async () => {
    const { order, orders, until, ended } = setUp();
    const what = { case: 'diskRotation', value: { uuid: 'disk-1' } };
    order({ case: 'task', value: { task: 1n, credit: 16, what } });
    expect(data((await until(3))[1])).toBe('new keys of disk-1');
    orders.close();
    await ended;
  });

  test('sends a kept backup that the curator names', async () => {
    const { order, orders, until, ended } = setUp();
    const what = { case: 'fetchBackup', value: { name: 'n' } };
    order({ case: 'task', value: { task: 1n, credit: 16, what } });
    expect(data((await until(3))[1])).toBe('file n');
    orders.close();
    await ended;
  });

  test('passes the owner’s reset order on to the agent, and reports why it was refused', async () => {
    const signatures: Uint8Array[] = [];
    const reset: TaskPorts['reset'] = async ({ signature }) => {
      signatures.push(signature);
      if (signatures.length > 1) throw new NodeStreamError('nodestream-task-unknown', 'no');
    };
    const { order, orders, until, ended } = setUp({ reset });
    const value = { ownerPubKey: new Uint8Array(32), signature: new Uint8Array(64).fill(5) };
    for (const task of [1n, 2n])
      order({ case: 'task', value: { task, credit: 1, what: { case: 'reset', value } } });
    const [, ...answers] = await until(3);
    expect(answers.map((answer) => answer.case)).toEqual(['done', 'done']);
    expect(answers.map((answer) => answer.value)).toEqual([
      { task: 1n },
      { task: 2n, error: expect.objectContaining({ code: 'nodestream-task-unknown' }) as unknown },
    ]);
    expect(signatures[0]).toEqual(value.signature);
    orders.close();
    await ended;
  });

  test('sends hello, is accepted, answers tasks, and ends when the curator closes the stream', async () => {
    const { order, orders, until, ended, states } = setUp();
    order({ case: 'idle', value: {} });
    const what = { case: 'evidence', value: { nonce: new Uint8Array(32) } };
    order({ case: 'task', value: { task: 1n, credit: 16, what } });
    const said = await until(4);
    expect(said.map((each) => each.case)).toEqual(['hello', 'data', 'data', 'done']);
    expect([data(said[1]), data(said[2])]).toEqual(['tpm', 'quote of 32']);
    expect(states).toEqual(['taken']);
    orders.close();
    await ended;
  });

  test('never sends more messages than its credit allows', async () => {
    const { order, orders, until, said, ring, ended } = setUp();
    const logs = { source: { case: 'path', value: 'a' }, follow: true, backlog: 0 };
    order({ case: 'task', value: { task: 1n, credit: 1, what: { case: 'logs', value: logs } } });
    while (said.length < 1) await until(1);
    for (const message of ['one', 'two']) {
      await new Promise((resolve) => setImmediate(resolve));
      ring.add(record('a', message));
    }
    await until(2);
    await new Promise((resolve) => setImmediate(resolve));
    expect(said).toHaveLength(2);
    order({ case: 'credit', value: { task: 1n, messages: 1 } });
    expect(data((await until(3))[2])).toContain('two');
    order({ case: 'cancel', value: { task: 1n } });
    ring.add(record('a', 'nobody hears this'));
    await new Promise((resolve) => setImmediate(resolve));
    expect(said).toHaveLength(3);
    orders.close();
    await ended;
  });

  test('reports the error code of a task that it cannot run', async () => {
    const { order, orders, until, ended } = setUp();
    const logs = { source: { case: 'units', value: { names: ['sshd.service'] } }, backlog: 1 };
    order({ case: 'task', value: { task: 7n, credit: 1, what: { case: 'logs', value: logs } } });
    expect((await until(2))[1]).toMatchObject({
      case: 'done',
      value: { task: 7n, error: { code: 'nodestream-unit-unknown' } },
    });
    order({ case: 'task', value: { task: 8n, credit: 1 } });
    expect((await until(3))[2]).toMatchObject({ value: { error: { code: 'nodestream-task-unknown' } } });
    orders.close();
    await ended;
  });

  test('ends all running tasks with its signal', async () => {
    const { order, until, stop, ended } = setUp({
      metrics: (signal) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))),
    });
    order({ case: 'task', value: { task: 1n, credit: 1, what: { case: 'metrics', value: {} } } });
    await until(1);
    stop.abort(new Error('enough'));
    await expect(ended).rejects.toThrow('enough');
  });
});

import { create } from '@bufbuild/protobuf';
import { Command } from 'commander';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import {
  EnrolmentEvent_Stage as Stage,
  EnrolmentEventSchema,
  type EnrolmentEvent,
} from '../../../initproto/gen/machine_pb.js';
import { parseProvisioning } from '../../../internal/config/index.ts';
import { FakeClock } from '../../../internal/testing/fake-clock.ts';
import { FakeCommands } from '../../../internal/testing/host/fake-commands.ts';
import { MemoryFiles } from '../../../internal/testing/host/memory-files.ts';
import { preparseArgs } from '../../app/preparse-args.ts';
import { register } from '../../commands/node/join.ts';
import { createHost, type AppHost } from '../../host/index.ts';
import { runPreflightCommand } from '../../preflight/index.ts';
import { noPassphrases } from '../../workspace/fake-passphrases.ts';
import { follow } from './join.ts';

const EXAMPLES = join(import.meta.dirname, '../../../docs/examples');

/** Flags of a `cluster join` command line, without the global flags. */
async function flagsOf(argv: readonly string[]): Promise<Record<string, unknown>> {
  const program = new Command().exitOverride().configureOutput({ writeErr: () => undefined });
  const seen: Record<string, unknown>[] = [];
  register(program.command('join'), () => (flags) => {
    seen.push(flags as Record<string, unknown>);
    return Promise.resolve();
  });
  expect(argv.slice(0, 2)).toEqual(['cluster', 'join']);
  const own = argv
    .slice(2)
    .join('\0')
    .replaceAll(/\0?--(output|events)(=|\0)(json|stdout)/g, '')
    .split('\0');
  await program.parseAsync(['join', ...own], { from: 'user' });
  return seen[0] ?? {};
}

async function example(name: string): Promise<unknown> {
  return parse(await readFile(join(EXAMPLES, name), 'utf8'));
}

describe('docs/examples', () => {
  test('the cloud-init example writes a valid provisioning file and a valid command line', async () => {
    const file = (await example('cloud-init.yaml')) as {
      write_files: { path: string; content: string; permissions: string }[];
      runcmd: string[][];
    };
    const [provisioning] = file.write_files;
    expect(provisioning).toMatchObject({ path: '/etc/cluster/provisioning.json', permissions: '0600' });
    expect(parseProvisioning(provisioning?.content ?? '').joinEndpoints).toEqual([
      '10.0.0.10',
      '10.0.0.11:9090',
    ]);
    const [shell, stops, script = ''] = file.runcmd.at(-1) ?? [];
    const [checked, started, joined = ''] = script.split('\n');
    expect([shell, stops, checked, started]).toEqual([
      'sh',
      '-ec',
      'cluster preflight --fix --output json',
      'systemctl enable --now bootstrapper.service',
    ]);
    const flags = await flagsOf(joined.replace('exec ', '').split(' '));
    expect(flags).toMatchObject({ wait: true });
    expect(flags['timeout']).toBe(30 * 60_000);
  });

  test('the Ansible example writes a valid provisioning file and a valid command line with the endpoints', async () => {
    const [play] = (await example('ansible.yml')) as [
      { vars: { owner_key: string; endpoints: string[] }; tasks: Record<string, Record<string, unknown>>[] },
    ];
    const { owner_key, endpoints } = play.vars;
    const fill = (text: string): string =>
      text
        .replaceAll('{{ owner_key }}', owner_key)
        .replace(/\{\{ endpoints\[(\d)\] \}\}/g, (_, index: string) => endpoints[Number(index)] ?? '');
    const taskOf = (name: string) => play.tasks.find(({ name: each }) => (each as unknown) === name);
    const content = String(taskOf('Provision the machine')?.['ansible.builtin.copy']?.['content']);
    expect(parseProvisioning(fill(content)).ownerKeys).toEqual([owner_key]);
    const check = taskOf('Check the machine')?.['ansible.builtin.command']?.['argv'];
    expect(play.tasks.indexOf(taskOf('Check the machine') ?? {})).toBeLessThan(play.tasks.length - 2);
    expect(check).toEqual(['cluster', 'preflight', '--fix', '--output=json', '--events=stdout']);
    // The play retries only when no endpoint responds; any other failure stops it.
    expect(play.tasks.at(-1)?.['until']).toBe('join.rc != 6');
    const argv = play.tasks.at(-1)?.['ansible.builtin.command']?.['argv'] as string[];
    const flags = await flagsOf(argv.map(fill));
    expect(flags).toMatchObject({ wait: true, endpoint: endpoints, timeout: 10 * 60_000 });
  });

  test('the Ansible example reports a change of the machine if preflight fixes it, and none afterwards', async () => {
    const machine = await createUnfitMachine();
    const reports = await reportsOf('Check the machine', (host) => preflight(host, machine));
    expect([await reports(), await reports()]).toEqual([true, false]);
  });

  test('the Ansible example reports a change of the machine if it joins, and none afterwards', async () => {
    const joins = (...stages: readonly Stage[]) =>
      reportsOf('Join', (host) => joined(host, stages)).then((report) => report());
    expect(await joins(Stage.ASKING, Stage.WAITING, Stage.ADMITTED, Stage.MEMBER, Stage.RUNNING)).toBe(true);
    // The machine reports its newest stage only, so a short one may be missing.
    expect(await joins(Stage.ASKING, Stage.RUNNING)).toBe(true);
    expect([await joins(Stage.RUNNING), await joins(Stage.MEMBER, Stage.RUNNING)]).toEqual([false, false]);
  });

  test.each(['', '10', '0m', '10w', '1.5h', '-1m', '9999999s'])(
    '--timeout refuses the duration %j',
    async (text) => {
      await expect(flagsOf(['cluster', 'join', `--timeout=${text}`])).rejects.toThrow('Must be a duration');
    },
  );
});

interface CommandTask {
  readonly name: string;
  readonly register: string;
  readonly changed_when: string;
  readonly 'ansible.builtin.command': { readonly argv: readonly string[] };
}

/** Runs the command of a task with its flags; returns whether Ansible reports a change, by the output of the program. */
async function reportsOf(name: string, run: (host: AppHost) => Promise<unknown>) {
  const [play] = (await example('ansible.yml')) as [{ readonly tasks: readonly CommandTask[] }];
  const task = play.tasks.find((each) => each.name === name);
  const { flags } = preparseArgs(task?.['ansible.builtin.command'].argv.slice(1) ?? []);
  const condition = /^(\w+)\.stdout is search\('([^']+)'\)$/.exec(task?.changed_when ?? '');
  expect(condition?.[1]).toBe(task?.register);
  return async (): Promise<boolean> => {
    const streams = { in: new PassThrough(), out: new PassThrough(), err: new PassThrough() };
    const { signal } = new AbortController();
    await run(createHost(flags, { streams, clock: new FakeClock(), env: {}, signal }));
    return new RegExp(condition?.[2] ?? '').test(String(streams.out.read() ?? ''));
  };
}

/** A machine without IP forwarding. */
async function createUnfitMachine() {
  const files = new MemoryFiles();
  for (const directory of ['/var/lib/cluster/enrolment', '/proc/sys/net/ipv4', '/proc/sys/net/bridge'])
    await files.makeDirectory(directory);
  await files.writeAtomic('/var/lib/cluster/enrolment/lock.json', '{}'); // so that no port is probed
  await files.writeAtomic('/proc/filesystems', 'nodev\toverlay\n');
  await files.writeAtomic('/proc/sys/net/ipv4/ip_forward', '0\n');
  for (const family of ['iptables', 'ip6tables'])
    await files.writeAtomic(`/proc/sys/net/bridge/bridge-nf-call-${family}`, '1\n');
  return { files, commands: new FakeCommands(), clock: new FakeClock() };
}

async function preflight(host: AppHost, ports: Awaited<ReturnType<typeof createUnfitMachine>>) {
  const paths = { cache: '/c', data: '/d', config: '/f', workspace: '/w' };
  const { signal } = new AbortController();
  const machine = {
    hostname: () => 'no-such-name.invalid',
    architecture: () => 'amd64' as const,
    addresses: () => ['192.0.2.7'],
    bootId: async () => 'boot',
  };
  const streams = {
    freeBytes: async () => 1e12,
    writeAt: (path: string, _offset: number, bytes: Uint8Array) => ports.files.writeAtomic(path, bytes),
  };
  await runPreflightCommand(
    { host, ports, paths, passphrases: noPassphrases, env: {}, signal },
    { machine, streams },
    { fix: true },
  );
}

async function joined(host: AppHost, stages: readonly Stage[]): Promise<void> {
  const machine = {
    watchEnrolment: async function* (): AsyncGenerator<EnrolmentEvent> {
      for (const stage of stages) yield create(EnrolmentEventSchema, { stage });
    },
  };
  const ports = { clock: new FakeClock(), files: new MemoryFiles(), commands: new FakeCommands() };
  const seen = { last: undefined, connectionError: undefined };
  const { signal } = new AbortController();
  const view = await follow({ host, ports }, machine, { options: { wait: true }, seen, signal });
  host.result(view.data, () => view.text);
}

import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import { closeOpened, FakeCommands, MemoryFiles, type CommandAnswer } from '../../internal/testing/index.ts';
import { FakeClock } from '../../internal/testing/fake-clock.ts';
import { contextOf, start } from '../cluster/init/fake-workstation.ts';
import { RecordingHost } from '../host/fake-host.ts';
import { runPreflightCommand } from './index.ts';
import { REQUIRED_PROGRAMS } from '../../internal/preflight/index.ts';
import { noPassphrases } from '../workspace/fake-passphrases.ts';

const local = {
  machine: {
    hostname: () => 'no-such-name.invalid',
    architecture: () => 'amd64',
    addresses: () => ['192.0.2.7'],
    bootId: async () => 'boot',
  },
  streams: { freeBytes: async () => 1e12, writeAt: async () => undefined },
};
const here = {};

/**
 * A machine that is already a node (it has a node lock). Its ports are not checked, so the test does not
 * depend on free ports here.
 */
async function createMachine(answer?: (files: MemoryFiles) => CommandAnswer) {
  const files = new MemoryFiles();
  const write = async (path: string, text: string): Promise<void> => {
    await files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
    await files.writeAtomic(path, text);
  };
  await write('/var/lib/cluster/enrolment/lock.json', '{}');
  await write('/proc/sys/kernel/osrelease', '6.1.0\n');
  await write('/proc/sys/net/ipv4/ip_forward', '1\n');
  await write('/proc/filesystems', 'nodev\toverlay\n');
  await write('/sys/fs/cgroup/cgroup.controllers', 'cpu cpuset memory pids\n');
  for (const { program } of REQUIRED_PROGRAMS) await write(`/usr/bin/${program}`, '');
  const commands = new FakeCommands(answer?.(files));
  const host = new RecordingHost();
  const { signal } = new AbortController();
  const clock = new FakeClock(Date.UTC(2026, 5, 1));
  const paths = { cache: '/c', data: '/d', config: '/f', workspace: '/w' };
  return {
    files,
    commands,
    context: { host, ports: { files, commands, clock }, paths, passphrases: noPassphrases, env: {}, signal },
  };
}

describe('cluster preflight', () => {
  test('shows every check and ends with the exit code of the first failed one', async () => {
    const { context, commands } = await createMachine();
    await expect(runPreflightCommand(context, local, here)).resolves.toBe('preflight');
    const answer = context.host.answered as { fit: boolean; checks: { code: string; status: string }[] };
    expect(answer.fit).toBe(false);
    const failed = answer.checks.filter(({ status }) => status === 'failed');
    expect(failed.map(({ code }) => code)).toEqual(['preflight-module']);
    expect(commands.runs.map(([program]) => program)).toEqual(['timedatectl']);
  });

  test('with --fix loads missing modules, sets the parameters they add, and runs the checks again', async () => {
    const { context, commands, files } = await createMachine((disk) => (argv) => {
      if (argv[0] === 'modprobe') void disk.makeDirectory('/proc/sys/net/bridge');
      if (argv[0] === 'modprobe') void disk.writeAtomic('/proc/sys/net/bridge/bridge-nf-call-iptables', '0');
      return 'yes';
    });
    const written: [path: string, offset: number, text: string][] = [];
    const writeAt = async (path: string, offset: number, bytes: Uint8Array): Promise<void> => {
      written.push([path, offset, Buffer.from(bytes).toString()]);
      await files.writeAtomic(path, bytes);
    };
    const machine = { ...local, streams: { ...local.streams, writeAt } };
    await expect(runPreflightCommand(context, machine, { ...here, fix: true })).resolves.toBe('ok');
    // No program but modprobe: `sysctl` is in a package that the agent's package only recommends.
    expect(commands.runs.filter(([program]) => program !== 'timedatectl')).toEqual([
      ['modprobe', 'br_netfilter'],
    ]);
    expect(written).toEqual([['/proc/sys/net/bridge/bridge-nf-call-iptables', 0, '1\n']]);
    expect(context.host.records).toContainEqual(
      expect.objectContaining({ text: 'Fixed: net.bridge.bridge-nf-call-iptables = 1' }),
    );
    expect(context.host.codes).toContain('preflight-fix-until-reboot');
  });

  test('with --fix reports the command that failed', async () => {
    const { context } = await createMachine(
      () =>
        ([program]) =>
          program === 'modprobe' ? { exitCode: 1, output: 'module br_netfilter not found' } : 'yes',
    );
    await expect(runPreflightCommand(context, local, { ...here, fix: true })).rejects.toMatchObject({
      code: 'preflight-fix-failed',
      message: expect.stringContaining('modprobe br_netfilter'),
    });
  });

  test('with --fix reports the kernel parameter that it cannot set', async () => {
    const { context, files } = await createMachine(() => () => 'yes');
    await files.writeAtomic('/proc/sys/net/ipv4/ip_forward', '0\n');
    const writeAt = () => Promise.reject(new Error('read-only'));
    const machine = { ...local, streams: { ...local.streams, writeAt } };
    await expect(runPreflightCommand(context, machine, { ...here, fix: true })).rejects.toMatchObject({
      code: 'preflight-fix-failed',
      message: expect.stringContaining('net.ipv4.ip_forward = 1'),
    });
  });

  test('--fix is refused with --node', async () => {
    const { context, commands } = await createMachine();
    const asked = runPreflightCommand(context, local, { ...here, node: '192.0.2.9', fix: true });
    await expect(asked).rejects.toMatchObject({ code: 'preflight-fix-elsewhere', exit: 'usage' });
    expect(commands.runs).toEqual([]);
  });

  test('checks the provisioning file like the agent, and its TPM', async () => {
    const judged = async (provisioning: object) => {
      const { context, files } = await createMachine();
      await files.makeDirectory('/etc/cluster');
      await files.writeAtomic('/etc/cluster/provisioning.json', JSON.stringify(provisioning));
      const exit = await runPreflightCommand(context, local, here);
      const { checks } = context.host.answered as { checks: { status: string }[] };
      return { exit, first: checks.find(({ status }) => status === 'failed') };
    };
    expect(await judged({ version: 1, colour: 'blue' })).toMatchObject({
      exit: 'usage',
      first: {
        code: 'preflight-provisioning',
        cause: expect.stringContaining('unknown key "colour"'),
      },
    });
    const ownerKeys = [Buffer.alloc(32, 1).toString('base64')];
    const tpm = { kind: 'device', path: '/dev/no-such-tpm' };
    expect(await judged({ version: 1, platform: 'metal', ownerKeys, tpm })).toMatchObject({
      exit: 'precondition',
      first: { code: 'preflight-tpm', subject: 'TPM /dev/no-such-tpm' },
    });
  });
});

describe('cluster preflight --node', () => {
  afterEach(closeOpened);

  test('names both fingerprints when the machine has another key than the given one', async () => {
    const { files, node } = await start();
    const other = `sha256:${'0'.repeat(64)}`;
    const asked = runPreflightCommand(contextOf(files), local, { node: node.endpoint, fingerprint: other });
    await expect(asked).rejects.toMatchObject({
      code: 'cluster-other-machine',
      exit: 'refused',
      message: expect.stringContaining(`has fingerprint ${node.fingerprint}, expected ${other}`),
    });
  });

  test('says that a machine does not listen at its init port', async () => {
    const { files } = await start();
    const asked = runPreflightCommand(contextOf(files), local, { node: await closedEndpoint() });
    await expect(asked).rejects.toMatchObject({
      code: 'cluster-init-port-closed',
      fix: expect.stringMatching(
        /provisioning\.json on the machine, if that file is missing.*If the machine is a node already, this is expected/,
      ),
    });
  });
});

/** "HOST:PORT" on which nothing listens any more. */
async function closedEndpoint(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return `127.0.0.1:${port}`;
}

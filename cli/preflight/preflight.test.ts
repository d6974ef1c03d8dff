import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import { closeOpened, FakeCommands, MemoryFiles, type CommandAnswer } from '../../internal/testing/index.ts';
import {
  DEFAULT_KUBERNETES_VERSION,
  encodeManifest,
  type BundleManifest,
} from '../../internal/bundle/index.ts';
import { FakeClock } from '../../internal/testing/fake-clock.ts';
import { MANIFEST } from '../cluster/init/fake-node.ts';
import { CACHE, contextOf, start } from '../cluster/init/fake-workstation.ts';
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
const GIB = 1024 ** 3;
/** A bundle of 500 MB: 300 MB of images, and 100 MB for the workstation only. */
const BUNDLE: BundleManifest = {
  version: 1,
  name: `kubernetes-${DEFAULT_KUBERNETES_VERSION}-linux-amd64`,
  kubernetesVersion: DEFAULT_KUBERNETES_VERSION,
  architecture: 'amd64',
  components: [
    { ...component('kubelet', 'a'), kind: 'binary', sizeBytes: 1e8, scope: 'node' },
    {
      ...component('pause', 'b'),
      kind: 'image',
      sizeBytes: 3e8,
      scope: 'controlplane',
      references: ['pause:1'],
    },
    { ...component('helm', 'c'), kind: 'binary', sizeBytes: 1e8, scope: 'workstation' },
  ],
};

function component(name: string, digit: string) {
  return { name, version: '1', sha256: digit.repeat(64), source: 'here' };
}

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

  /** The results of the disk check with 1.5 GiB of free space. */
  async function checkSpace({ isNode = false, hasBundle = false }) {
    const { context, files } = await createMachine();
    if (!isNode) await files.remove('/var/lib/cluster/enrolment/lock.json');
    await files.makeDirectory('/c/bundles');
    if (hasBundle) await files.writeAtomic(`/c/bundles/${BUNDLE.name}.json`, encodeManifest(BUNDLE));
    const small = { ...local, streams: { ...local.streams, freeBytes: async () => 1.5 * GIB } };
    await runPreflightCommand(context, small, here);
    const { checks } = context.host.answered as { checks: { code: string; status: string }[] };
    const [text] = context.host.records.flatMap((record) => (record.kind === 'result' ? [record.text] : []));
    return { disk: checks.filter(({ code }) => code === 'preflight-disk'), text };
  }

  test('requires the space for the bundle in the cache: uploaded, installed and 1 GiB', async () => {
    const { disk } = await checkSpace({ hasBundle: true });
    expect(disk).toMatchObject([
      { subject: '/var/lib/cluster', status: 'failed', threshold: 'at least 1.8 GiB' },
      { subject: '/var/lib/containerd', status: 'failed', threshold: 'at least 1.7 GiB' },
    ]);
  });

  test('says that it does not check the space for a bundle that it does not know', async () => {
    const { disk, text } = await checkSpace({});
    expect(disk).toMatchObject([
      { subject: '/var/lib/cluster', status: 'ok', threshold: 'at least 1.0 GiB' },
      { subject: '/var/lib/containerd', status: 'ok', threshold: 'at least 1.0 GiB' },
      { subject: 'space for the bundle', status: 'skipped', figure: 'not checked' },
    ]);
    expect(text).toMatch(/skipped: .* an init also needs the space for the bundle \[preflight-disk\]\n\n/);
    expect(text).toMatch(/\d checks? skipped\)/);
  });

  test('requires of a node no space for the bundle, which it has already', async () => {
    const { disk } = await checkSpace({ isNode: true, hasBundle: true });
    expect(disk).toMatchObject([
      { subject: '/var/lib/cluster', status: 'ok' },
      { subject: '/var/lib/containerd', status: 'ok' },
    ]);
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

  test('sends the manifest of the bundle in the cache, and none without a bundle', async () => {
    const { files, node } = await start();
    const options = { node: node.endpoint, fingerprint: node.fingerprint };
    await runPreflightCommand(contextOf(files), local, options);
    await files.remove(`${CACHE}/bundles/${BUNDLE.name}.json`);
    await runPreflightCommand(contextOf(files), local, options);
    expect(node.preflights.map(({ bundleManifest }) => Buffer.from(bundleManifest).toString())).toEqual([
      Buffer.from(MANIFEST).toString(),
      '',
    ]);
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

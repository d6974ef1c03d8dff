import { generateKeyPairSync } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, expect, test } from '@jest/globals';
import { recoveryKeyOfOwner } from '../../../internal/backup/index.ts';
import { SystemClock } from '../../../internal/clock/index.ts';
import { diagnose, parseFacts, problemsFrom } from '../../../internal/doctor/index.ts';
import type { Command } from '../../../internal/exec/index.ts';
import { FileError } from '../../../internal/file/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import {
  closeOpened,
  FakeCommands,
  MemoryFiles,
  opened,
  temporaryDirectory,
  type CommandAnswer,
} from '../../../internal/testing/index.ts';
import { RecordingHost } from '../../host/fake-host.ts';
import { noPassphrases } from '../../workspace/fake-passphrases.ts';
import { plantedSecrets } from '../redact/fake-secrets.ts';
import { decodeSupportFile, type SupportManifest } from '../support-file.ts';
import { runLocalSupportBundle } from './create-local-bundle.ts';
import type { LocalPorts } from './local-ports.ts';

afterEach(closeOpened);

const { privateKey } = generateKeyPairSync('ed25519');
const key = recoveryKeyOfOwner(new Secret(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()));
const STATE = '/var/lib/cluster';
const POD = '/var/log/pods/kube-system_kube-apiserver-n1_0123abcd/kube-apiserver';
const MEMBERSHIP = {
  ...{ clusterId: 'c0ffee', clusterName: 'blue', nodeId: 'id-1', nodeName: 'n1', nodeAddress: '192.0.2.1' },
  directory: [{ nodeId: 'id-1', host: '192.0.2.1' }],
  nodeCertPem: 'not collected',
};
const ACTIVE = 'LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nNRestarts=0';

/** A disk whose reads may fail. */
class OddFiles extends MemoryFiles {
  readonly failures = new Map<string, Error>();

  override async read(path: string, maxBytes: number): Promise<Uint8Array | undefined> {
    const failure = this.failures.get(path);
    if (failure !== undefined) throw failure;
    return super.read(path, maxBytes);
  }

  async put(path: string, text: string): Promise<void> {
    await this.makeDirectory(path.slice(0, path.lastIndexOf('/')));
    await this.writeAtomic(path, text);
  }
}

/** `systemctl show` of units that all run, but for the named ones. */
function systemctl(argv: readonly string[], stopped: readonly string[] = []): string | undefined {
  if (argv[0] !== 'systemctl' || argv[1] !== 'show') return undefined;
  return argv
    .slice(3)
    .map((unit) => {
      const state = stopped.includes(unit) ? ACTIVE.replace('=active', '=inactive') : ACTIVE;
      return `Id=${unit}\n${state}`;
    })
    .join('\n\n');
}

async function createMachine({ answer, page }: { answer?: CommandAnswer; page?: string } = {}) {
  const files = new OddFiles();
  const store = (value: unknown): string => JSON.stringify({ version: 1, value, sha256: '' });
  await files.put(`${STATE}/membership/membership.json`, store(MEMBERSHIP));
  await files.put(`${STATE}/membership/roles.json`, store(['ConsensusMember', 'KubernetesController']));
  await files.put(`${POD}/0.log`, 'first run\n');
  await files.put(`${POD}/10.log`, 'last run\n');
  await files.put('/proc/cmdline', 'quiet');
  const commands = new FakeCommands((argv, command) => answer?.(argv, command) ?? systemctl(argv));
  const context = {
    ...{ host: new RecordingHost(), passphrases: noPassphrases, env: {} },
    ports: { files, commands, clock: new SystemClock() },
    paths: { cache: '/c', data: '/d', config: '/f', workspace: '/w' },
    signal: new AbortController().signal,
  };
  const disk = { sizeBytes: 100, availableBytes: 60, inodes: 0, inodesFree: 0 };
  const local: LocalPorts = {
    machine: {
      hostname: () => 'n1.example.invalid',
      architecture: () => 'amd64',
      addresses: () => ['192.0.2.1'],
      bootId: async () => 'boot',
    },
    streams: {
      freeBytes: async () => 1e12,
      fileSystem: async () => disk,
      readChunks: async function* (path, { offset = 0 }) {
        yield ((await files.read(path, 1e9)) ?? new Uint8Array()).subarray(offset);
      },
    },
    readPage: async () => (page === undefined ? undefined : { ok: true, text: page }),
  };
  const { path } = opened(await temporaryDirectory());
  return { files, context, local, to: join(path, 'n1.support') };
}

type TestMachine = Awaited<ReturnType<typeof createMachine>>;

/** Makes the bundle, and opens it with the recovery key of the owner. */
async function makeBundle(
  { context, local, to }: TestMachine,
  recipients = [key.recipient],
  sourceMs = 5_000,
) {
  await runLocalSupportBundle(context, local, { to, recipients, lines: 100, windowMs: 1, sourceMs });
  const decoding = decodeSupportFile(Readable.from([await readFile(to)]), [key]);
  const texts = new Map<string, string>();
  for (;;) {
    const { done, value } = await decoding.next();
    if (done === true)
      return { texts, manifest: value, whyMissing: (path: string) => whyMissing(value, path) };
    texts.set(value.path, Buffer.from(value.content).toString());
  }
}

function whyMissing({ missing }: SupportManifest, path: string): string | undefined {
  return missing.find((each) => each.path === path)?.error;
}

test('collects on a machine whose agent, etcd and API server are down, and the doctor names the stopped units', async () => {
  const stopped = ['bootstrapper.service', 'cluster-etcd-state.service'];
  const machine = await createMachine({
    answer: (argv) =>
      systemctl(argv, stopped) ?? (argv[0] === 'journalctl' ? `log of ${argv[1]}` : undefined),
  });
  const { texts, manifest, whyMissing: why } = await makeBundle(machine);
  expect((await stat(machine.to)).mode & 0o777).toBe(0o600);
  expect((await readFile(machine.to)).subarray(0, 21).toString()).toBe('age-encryption.org/v1');
  expect(manifest).toMatchObject({ clusterId: 'c0ffee', clusterName: 'blue' });
  expect(texts.get('nodes/n1/cluster-etcd-state.log')).toContain('--unit=cluster-etcd-state.service');
  expect(texts.get('nodes/n1/pods/kube-apiserver-n1/kube-apiserver.log')).toBe('last run\n');
  expect(JSON.parse(texts.get('nodes/n1/membership.json') ?? '')).toEqual({
    value: { ...MEMBERSHIP, nodeCertPem: undefined },
  });
  for (const path of ['nodes/n1/quorum.json', 'nodes/n1/etcd-state.json', 'kubernetes'])
    expect(why(path)).toEqual(expect.any(String));
  const facts = parseFacts(Buffer.from(texts.get('facts.json') ?? ''));
  const problems = problemsFrom(diagnose(facts));
  expect(problems.filter(({ code }) => code === 'doctor-machine-units').map(({ cause }) => cause)).toEqual([
    'bootstrapper.service on n1 does not run (inactive, last result success)',
    'cluster-etcd-state.service on n1 does not run (inactive, last result success)',
  ]);
  expect(problems.find(({ code }) => code === 'doctor-etcd-member')?.followsFrom).toBe(
    'doctor-machine-units',
  );
});

test('planted secrets of every shape in every local source are not in the bundle', async () => {
  const planted = plantedSecrets();
  const lines = planted.map(({ line }) => line).join('\n');
  const machine = await createMachine({
    answer: (argv) =>
      systemctl(argv) ?? (argv[0] === 'ip' ? { exitCode: 1, output: planted[150]?.line ?? '' } : lines),
    page: lines,
  });
  const { files } = machine;
  const strings = JSON.stringify({ value: { notes: planted.map(({ line }) => line) } });
  for (const name of ['settings', 'directory']) await files.put(`${STATE}/membership/${name}.json`, strings);
  for (const path of ['/etc/cluster/provisioning.json', '/proc/cmdline', '/etc/resolv.conf', `${POD}/10.log`])
    await files.put(path, path.endsWith('.json') ? strings : lines);
  const { texts, manifest } = await makeBundle(machine);
  expect(texts.get('nodes/n1/kubelet.log')?.length).toBeGreaterThan(1_000);
  expect(texts.get('nodes/n1/settings.json')?.length).toBeGreaterThan(1_000);
  expect(texts.get('nodes/n1/pods/kube-apiserver-n1/kube-apiserver.log')?.length).toBeGreaterThan(1_000);
  expect(manifest.missing.map(({ path }) => path)).toContain('network/routes.txt');
  const all = [...texts, ['manifest.json', JSON.stringify(manifest)] as const];
  const seen = planted.flatMap(({ shape, secret }) =>
    all
      .filter(([, text]) => text.includes(secret) || text.includes(JSON.stringify(secret).slice(1, -1)))
      .map(([path]) => `${shape} in ${path}`),
  );
  expect(planted.length).toBeGreaterThan(400);
  expect(seen).toEqual([]);
});

test('keys of the node are never read', async () => {
  const machine = await createMachine();
  const { files } = machine;
  const paths = [
    `${STATE}/machine/key.pem`,
    `${STATE}/credentials/node.key`,
    `${STATE}/keys/rotation.json`,
    '/etc/kubernetes/pki/ca.key',
    '/etc/kubernetes/encryption/config.json',
  ];
  for (const path of paths) await files.put(path, 'plain text that has no shape');
  for (const path of paths) files.failures.set(path, new Error('this key was read'));
  const { texts, manifest } = await makeBundle(machine);
  expect(JSON.stringify([...texts, manifest])).not.toMatch(/this key was read|no shape/);
});

test('a file that cannot be read is listed with its error, and the rest is collected', async () => {
  const machine = await createMachine();
  const path = `${STATE}/membership/roles.json`;
  machine.files.failures.set(path, new FileError('file-io', `reading ${path}: EIO: i/o error`));
  const { texts, whyMissing: why } = await makeBundle(machine);
  expect(why('nodes/n1/roles.json')).toContain('EIO');
  expect(texts.has('nodes/n1/membership.json')).toBe(true);
  expect(texts.has('nodes/n1/preflight.json')).toBe(true);
});

test('a program that hangs is listed after its time, and the rest is collected', async () => {
  const machine = await createMachine();
  const { commands } = machine.context.ports;
  const hangs = ({ argv }: Command): boolean => argv[0] === 'systemctl' || argv.includes('--dmesg');
  machine.context.ports.commands = {
    ...commands,
    run: (command: Command) =>
      hangs(command)
        ? new Promise((_, reject) => {
            command.signal.addEventListener('abort', () => reject(command.signal.reason as Error));
          })
        : commands.run(command),
  } as never;
  const { texts, whyMissing: why } = await makeBundle(machine, [key.recipient], 50);
  expect(why('system/kernel.log')).toContain('timed out after 50ms');
  expect(why('system/failed-units.txt')).toContain('timed out after 50ms');
  expect(texts.has('nodes/n1/kubelet.log')).toBe(true);
  const facts = parseFacts(Buffer.from(texts.get('facts.json') ?? ''));
  expect(facts.local?.units).toMatchObject({ ok: false, error: expect.stringContaining('timed out') });
  expect(diagnose(facts).find(({ code }) => code === 'doctor-machine-units')?.grade).toBe('unknown');
});

test('a disk that hangs delays the bundle by a bounded time', async () => {
  const machine = await createMachine();
  machine.files.read = (path) =>
    path.startsWith(STATE) ? new Promise(() => undefined) : Promise.resolve(Buffer.from('{}'));
  const { texts, manifest } = await makeBundle(machine, [key.recipient], 50);
  expect(manifest).toMatchObject({ clusterId: '', clusterName: '' });
  expect(texts.has('system/load.txt')).toBe(true);
});

test('a machine that is no node yet gives its facts, and only its agent is needed', async () => {
  const machine = await createMachine({ answer: (argv) => systemctl(argv, ['kubelet.service']) });
  await machine.files.remove(`${STATE}/membership`);
  const { texts } = await makeBundle(machine);
  const { local } = parseFacts(Buffer.from(texts.get('facts.json') ?? ''));
  expect(local).toMatchObject({ node: 'n1.example.invalid', isMember: false, isControlPlane: false });
  const needed = local?.units.ok === true ? local.units.value.filter(({ isNeeded }) => isNeeded) : [];
  expect(needed.map(({ name }) => name)).toEqual(['bootstrapper.service']);
});

test('the end of a long log of a pod begins with a whole line', async () => {
  const machine = await createMachine();
  await machine.files.put(`${POD}/10.log`, `password=${'x'.repeat(1024 * 1024)}\nlast line\n`);
  const { texts } = await makeBundle(machine);
  expect(texts.get('nodes/n1/pods/kube-apiserver-n1/kube-apiserver.log')).toBe('last line\n');
});

test('is encrypted to the recovery keys of the state disk without --recipient, and never without any', async () => {
  const machine = await createMachine();
  await expect(makeBundle(machine, [])).rejects.toMatchObject({ code: 'support-recipient-missing' });
  await expect(stat(machine.to)).rejects.toMatchObject({ code: 'ENOENT' });
  const provisioning = {
    ...{ version: 1, platform: 'metal', ownerKeys: [Buffer.alloc(32, 1).toString('base64')] },
    ...{ tpm: { kind: 'device', path: '/dev/no-such-tpm' } },
    stateDisk: { device: '/dev/no-such-disk', recoveryRecipients: [key.recipient] },
  };
  await machine.files.put('/etc/cluster/provisioning.json', JSON.stringify(provisioning));
  await makeBundle(machine, []);
  expect(machine.context.host.answered).toMatchObject({ recipients: [key.recipient] });
});

test('refuses a user who is not root, a recipient that is no recovery key, and a file that exists', async () => {
  const machine = await createMachine();
  await expect(makeBundle(machine, ['age1x'])).rejects.toMatchObject({ code: 'backup-recipient-invalid' });
  const path = '/etc/cluster/provisioning.json';
  machine.files.failures.set(path, new FileError('file-permission', `reading ${path}: EACCES`));
  await expect(makeBundle(machine)).rejects.toMatchObject({ code: 'support-not-root' });
  machine.files.failures.clear();
  await machine.files.put(machine.to, 'before');
  await expect(makeBundle(machine)).rejects.toMatchObject({ code: 'support-file-exists' });
});

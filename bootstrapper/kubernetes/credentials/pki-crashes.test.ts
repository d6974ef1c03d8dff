import { describe, expect, test } from '@jest/globals';
import { createPrivateKey, createPublicKey, X509Certificate } from 'node:crypto';
import type { FilePort } from '../../../internal/file/index.ts';
import { generateKeyPem } from '../../../internal/pki/index.ts';
import { everyFault, MemoryFiles } from '../../../internal/testing/index.ts';
import { apiServerNames } from './api-server-credentials.ts';
import {
  createControlPlane,
  never,
  placeKubelet,
  placeSharedKeys,
  runAll,
  settings,
  silent,
} from '../fake-machine.ts';
import { StepCheckpoints } from '../step-checkpoints.ts';
import { COMPONENT_CLIENTS, KUBELET_FILES } from './key-files.ts';
import { PATHS } from '../settings.ts';

const pki = (name: string): string => `${PATHS.pki}/${name}`;
const [toManager, toScheduler] = [COMPONENT_CLIENTS['controller-manager'], COMPONENT_CLIENTS.scheduler];
/** The paths of certificate, key and CA of each key pair. */
const PAIRS = [
  { cert: pki('ca.crt'), key: pki('ca.key'), by: pki('ca.crt') },
  { cert: pki('front-proxy-ca.crt'), key: pki('front-proxy-ca.key'), by: pki('front-proxy-ca.crt') },
  { cert: pki('apiserver.crt'), key: pki('apiserver.key'), by: pki('ca.crt') },
  { cert: pki('apiserver-kubelet-client.crt'), key: pki('apiserver-kubelet-client.key'), by: pki('ca.crt') },
  { cert: pki('front-proxy-client.crt'), key: pki('front-proxy-client.key'), by: pki('front-proxy-ca.crt') },
  { cert: toManager.cert, key: toManager.key, by: pki('ca.crt') },
  { cert: toScheduler.cert, key: toScheduler.key, by: pki('ca.crt') },
  { cert: KUBELET_FILES.clientCert, key: KUBELET_FILES.clientKey, by: pki('ca.crt') },
  { cert: KUBELET_FILES.servingCert, key: KUBELET_FILES.servingKey, by: pki('ca.crt') },
] as const;
const AUTHORITIES = PAIRS.filter(({ cert, by }) => cert === by);
const LEAVES = PAIRS.filter(({ cert, by }) => cert !== by);
const KUBECONFIGS = [PATHS.adminConf, PATHS.superAdminConf];
/** Files that must never be replaced: other nodes or stored data depend on them. */
const MADE_ONCE = [...AUTHORITIES.flatMap(({ cert, key }) => [cert, key]), pki('sa.key'), PATHS.encryption];

async function textOf(files: FilePort, path: string): Promise<string | undefined> {
  const bytes = await files.read(path, 65_536);
  return bytes === undefined ? undefined : Buffer.from(bytes).toString('utf8');
}

const textsOf = (files: FilePort, paths: readonly string[]) =>
  Promise.all(paths.map((path) => textOf(files, path)));

function makePki(files: FilePort, changes: Partial<typeof settings> = {}): Promise<void> {
  return createControlPlane(undefined, files).create(changes).createPki(silent, never);
}

async function made(): Promise<MemoryFiles> {
  const files = new MemoryFiles();
  await makePki(files);
  await new StepCheckpoints(files).clear(['pki']);
  return files;
}

/** Checks that every certificate exists and matches its key and its CA. */
async function expectWhole(files: FilePort): Promise<void> {
  const wrong: string[] = [];
  const check = (what: string, [cert = '', key = '', by = '']: readonly (string | undefined)[]): void => {
    const certificate = new X509Certificate(cert);
    if (!certificate.checkPrivateKey(createPrivateKey(key))) wrong.push(`${what}: of another key`);
    if (!certificate.verify(new X509Certificate(by).publicKey)) wrong.push(`${what}: of another authority`);
  };
  for (const { cert, key, by } of PAIRS) check(cert, await textsOf(files, [cert, key, by]));
  const ca = await textOf(files, pki('ca.crt'));
  for (const path of KUBECONFIGS) {
    const config = (await textOf(files, path)) ?? '';
    const [authority, cert, key] = [
      'certificate-authority-data',
      'client-certificate-data',
      'client-key-data',
    ].map((name) =>
      Buffer.from(new RegExp(`${name}: (\\S+)`).exec(config)?.[1] ?? '', 'base64').toString('utf8'),
    );
    check(path, [cert, key, ca]);
    if (authority !== ca) wrong.push(`${path}: believes another authority`);
  }
  const [key = '', pub = ''] = await textsOf(files, [pki('sa.key'), pki('sa.pub')]);
  if (!createPublicKey(key).equals(createPublicKey(pub))) wrong.push('sa.pub: of another key');
  if ((await textOf(files, PATHS.encryption)) === undefined) wrong.push('no key to encrypt with');
  expect(wrong).toEqual([]);
}

describe('ControlPlane.createPki() on the node that creates the cluster', () => {
  test('completes after a crash at any write, and creates the shared keys only once', async () => {
    const points: string[] = [];
    const faults = everyFault({
      faults: ['crash-before'],
      prepare: () => Promise.resolve(),
      run: (files) => makePki(files),
    });
    for await (const { name, disk } of faults) {
      points.push(name);
      const before = await textsOf(disk, MADE_ONCE);
      await makePki(disk);
      await expectWhole(disk);
      const after = await textsOf(disk, MADE_ONCE);
      expect({ name, kept: after.map((text, index) => before[index] ?? text) }).toEqual({
        name,
        kept: after,
      });
    }
    expect(points.length).toBeGreaterThan(MADE_ONCE.length + 2 * LEAVES.length);
  });

  test.each(
    [...LEAVES.flatMap(({ cert, key }) => [cert, key]), ...KUBECONFIGS].flatMap((path) => [
      { path, what: 'is gone', damaged: undefined },
      { path, what: 'is empty', damaged: '' },
      { path, what: 'is cut', damaged: '-----BEGIN CERTIFICATE-----\nMIIB' },
    ]),
  )('replaces $path if the file $what and the step has no checkpoint', async ({ path, damaged }) => {
    const files = await made();
    const before = await textsOf(files, MADE_ONCE);
    if (damaged === undefined) await files.remove(path);
    else await files.writeAtomic(path, damaged);
    await makePki(files);
    await expectWhole(files);
    expect(await textsOf(files, MADE_ONCE)).toEqual(before);
  });

  test.each(LEAVES)(
    'replaces $cert if it is of another key or CA and the step has no checkpoint',
    async ({ cert, key }) => {
      const files = await made();
      await files.writeAtomic(key, generateKeyPem().reveal());
      await makePki(files);
      await expectWhole(files);
      const other = new MemoryFiles();
      await makePki(other);
      for (const path of [cert, key]) await files.writeAtomic(path, (await textOf(other, path)) ?? '');
      await new StepCheckpoints(files).clear(['pki']);
      await makePki(files);
      await expectWhole(files);
    },
  );

  test.each([...AUTHORITIES.map(({ cert }) => cert), pki('sa.pub')])(
    'creates a missing %s for the existing key',
    async (path) => {
      const files = await made();
      const keys = [...AUTHORITIES.map(({ key }) => key), pki('sa.key')];
      const before = await textsOf(files, keys);
      await files.remove(path);
      await makePki(files);
      await expectWhole(files);
      expect(await textsOf(files, keys)).toEqual(before);
    },
  );

  const halves = [
    ...AUTHORITIES.map(({ cert, key }) => ({ cert, key })),
    { cert: pki('sa.pub'), key: pki('sa.key') },
  ];
  test.each(
    halves.flatMap(({ cert, key }) => [
      { path: key, what: 'is gone', damaged: undefined },
      { path: key, what: 'is empty', damaged: '' },
      { path: cert, what: 'is cut', damaged: '-----BEGIN' },
      { path: cert, what: 'is of another key', damaged: 'another' },
    ]),
  )(
    'refuses a damaged key pair ($path $what) with an error that names it, and changes no file',
    async ({ path, damaged }) => {
      const files = await made();
      const other = damaged === 'another' ? ((await textOf(await made(), path)) ?? '') : damaged;
      if (other === undefined) await files.remove(path);
      else await files.writeAtomic(path, other);
      const paths = [...MADE_ONCE, ...PAIRS.map(({ cert }) => cert), ...KUBECONFIGS];
      const before = await textsOf(files, paths);
      await expect(makePki(files)).rejects.toMatchObject({
        code: 'kubernetes-keys-damaged',
        details: { path },
      });
      expect(await textsOf(files, paths)).toEqual(before);
    },
  );

  test('keeps a file with two trusted service account keys, as it exists during a rotation', async () => {
    const files = await made();
    const [path, before] = [pki('sa.pub'), (await textOf(files, pki('sa.pub'))) ?? ''];
    const other = (await textOf(await made(), path)) ?? '';
    await files.writeAtomic(path, `${other}${before}`);
    await makePki(files);
    expect(await textOf(files, path)).toBe(`${other}${before}`);
    await new StepCheckpoints(files).clear(['pki']);
    await files.writeAtomic(path, `${other}${other}`);
    await expect(makePki(files)).rejects.toMatchObject({ code: 'kubernetes-keys-damaged' });
  });

  test('reissues certificates for new names with the existing key', async () => {
    const files = await made();
    const key = await textOf(files, pki('apiserver.key'));
    await makePki(files, { apiServerSans: ['other.example.test', '2001:db8::7'] });
    const certificate = new X509Certificate((await textOf(files, pki('apiserver.crt'))) ?? '');
    expect(certificate.checkHost('other.example.test')).toBe('other.example.test');
    expect(certificate.checkIP('2001:db8::7')).toBeDefined();
    expect(await textOf(files, pki('apiserver.key'))).toBe(key);
    await expectWhole(files);
  });
});

test('apiServerNames() has the names of kubeadm and those of the configuration', () => {
  const own = { ...settings, apiEndpoint: '[2001:db8::1]:6443' };
  expect(apiServerNames(own).map(({ type, value }) => `${type} ${value}`)).toEqual([
    'dns n1',
    'dns kubernetes',
    'dns kubernetes.default',
    'dns kubernetes.default.svc',
    'dns kubernetes.default.svc.cluster.local',
    'dns localhost',
    'ip 198.19.128.1',
    'ip 198.18.0.11',
    'ip 127.0.0.1',
    'dns api.example.test',
    'ip 192.0.2.7',
    'ip 2001:db8::1',
  ]);
});

test('a control plane that joins gets no super-admin.conf', async () => {
  const bed = createControlPlane();
  await placeSharedKeys(bed.files);
  await placeKubelet(bed.files);
  await bed.create({}, false).createPki(silent, never);
  expect(await bed.files.stat(PATHS.adminConf)).toBeDefined();
  expect(await bed.files.stat(PATHS.superAdminConf)).toBeUndefined();
});

test('storeSettings() deletes super-admin.conf even if createPki() was repeated', async () => {
  const bed = createControlPlane();
  await runAll(bed.create());
  await new StepCheckpoints(bed.files).clear(['pki']);
  await bed.create().createPki(silent, never);
  expect(await bed.files.stat(PATHS.superAdminConf)).toBeDefined();
  await bed.create().storeSettings(silent, never);
  expect(await bed.files.stat(PATHS.superAdminConf)).toBeUndefined();
});

test('repeats a step that was interrupted with new settings, even if the previous settings return', async () => {
  const names = ['other.example.test'];
  const bed = createControlPlane((argv) =>
    /control-plane|upload-config/.test(argv.join(' ')) && isBroken
      ? { exitCode: 1, output: 'cut' }
      : undefined,
  );
  let isBroken = false;
  await runAll(bed.create());
  const other = bed.create({ apiServerSans: names });
  await other.createPki(silent, never);
  isBroken = true;
  await expect(other.start(silent, never)).rejects.toThrow('cut');
  await expect(other.storeSettings(silent, never)).rejects.toThrow('cut');
  isBroken = false;
  const before = bed.phasesRun().length;
  await runAll(bed.create());
  expect(bed.phasesRun().slice(before)).toEqual(
    expect.arrayContaining(['control-plane all', 'upload-config all']),
  );
  const certificate = new X509Certificate((await textOf(bed.files, pki('apiserver.crt'))) ?? '');
  expect(certificate.checkHost(settings.apiServerSans[0] ?? '')).toBeDefined();
});

test('a control plane starts after a crash at any write', async () => {
  const faults = everyFault({
    faults: ['crash-before'],
    prepare: () => Promise.resolve(),
    run: (files) => runAll(createControlPlane(undefined, files).create()),
  });
  for await (const { name, disk } of faults) {
    await runAll(createControlPlane(undefined, disk).create());
    const third = createControlPlane(undefined, disk);
    await runAll(third.create());
    expect({ name, again: third.phasesRun() }).toEqual({ name, again: [] });
    expect(await disk.stat(PATHS.superAdminConf)).toBeUndefined();
  }
}, 300_000);

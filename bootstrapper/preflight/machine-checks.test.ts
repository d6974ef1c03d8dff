import { expect, test } from '@jest/globals';
import { type BundleManifest, encodeManifest } from '../../internal/bundle/index.ts';
import { MemoryFiles, settle } from '../../internal/testing/index.ts';
import type { InitSpec } from '../initserver/index.ts';
import type { PreflightOptions } from './preflight.ts';
import { createMachineChecks, type MachineChecksPorts } from './machine-checks.ts';

const ports = {
  files: new MemoryFiles(),
  machine: { hostname: () => 'w1' },
  streams: {},
} as unknown as MachineChecksPorts;
const component = { version: '1', sha256: 'a'.repeat(64), source: 'here', scope: 'node' } as const;
const MANIFEST: BundleManifest = {
  version: 1,
  name: 'kubernetes-v1.35.4-linux-amd64',
  kubernetesVersion: 'v1.35.4',
  architecture: 'amd64',
  components: [
    { ...component, name: 'kubelet', kind: 'binary', sizeBytes: 50 },
    {
      ...component,
      name: 'pause',
      kind: 'image',
      sizeBytes: 10,
      sha256: 'b'.repeat(64),
      references: ['pause:1'],
    },
  ],
};
const SPEC = {
  nodeName: 'n7',
  bundleManifest: '',
  serviceSubnet: '198.19.128.0/20',
  configuration: '',
} as InitSpec;
const { signal } = new AbortController();
const GIB = 1024 ** 3;

function createChecks() {
  const begun: { readonly options: PreflightOptions; readonly end: PromiseWithResolvers<void> }[] = [];
  const run = (_: unknown, options: PreflightOptions): Promise<void> => {
    const end = Promise.withResolvers<void>();
    begun.push({ options, end });
    return end.promise;
  };
  const check = (_: unknown, options: PreflightOptions): Promise<[]> => run(_, options).then(() => []);
  const provisioning = {
    platform: 'local' as const,
    address: '192.0.2.7',
    kubelet: { failCgroupV1: false },
    tpm: { kind: 'device' as const, path: '/dev/tpmrm0', lockPcr: 15, sealedPcrs: [] },
    stateDisk: {
      device: '/dev/disk/by-id/state',
      pcrs: [7],
      integrity: true,
      recoveryRecipients: ['age1x'] as [string],
      recoveryThreshold: 1,
    },
  };
  const tpm = { use: () => Promise.reject(new Error('no response')) };
  const checks = createMachineChecks(ports, { provisioning, tpm, signal, run, check });
  return { begun, checks };
}

test('checkForJoin() runs the checks of an init with the machine’s own name, address and minimum disk space', async () => {
  const { begun, checks } = createChecks();
  const checked = checks.checkForJoin();
  await settle();
  expect(begun[0]?.options).toEqual({
    nodeName: 'w1',
    configuredAddress: '192.0.2.7',
    families: [],
    needsWireguard: false,
    neededBytes: { '/var/lib/cluster': GIB, '/var/lib/containerd': GIB },
    includesBundle: false,
    allowsCgroupV1: true,
    hasStateDisk: true,
    callerClockMs: undefined,
    signal,
    tpm: { path: '/dev/tpmrm0', findProblem: expect.any(Function) },
  });
  expect(await begun[0]?.options.tpm?.findProblem(signal)).toBe('no response');
  begun[0]?.end.resolve();
  await checked;
});

test('two checks run one after the other, even when the first one fails', async () => {
  const { begun, checks } = createChecks();
  const [first, second] = [checks.checkForJoin(), checks.checkForJoin()];
  await settle();
  expect(begun).toHaveLength(1);
  begun[0]?.end.reject(new Error('swap is on'));
  await expect(first).rejects.toThrow('swap is on');
  await settle();
  expect(begun).toHaveLength(2);
  begun[1]?.end.resolve();
  await second;
});

test('report() adds the bytes still to be uploaded and the databases to restore, and compares with the clock of the caller', async () => {
  const { begun, checks } = createChecks();
  const bundleManifest = Buffer.from(encodeManifest(MANIFEST)).toString('utf8');
  const reported = checks.report({
    nodeName: 'n7',
    bundleManifest,
    missingBytes: 50,
    databaseBytes: 700,
    callerNowMs: 3,
  });
  await settle();
  expect(begun[0]?.options).toMatchObject({
    nodeName: 'n7',
    callerClockMs: 3,
    neededBytes: { '/var/lib/cluster': 50 + 700 + 60 + GIB, '/var/lib/containerd': 6 * 10 },
    includesBundle: true,
  });
  begun[0]?.end.resolve();
  await expect(reported).resolves.toEqual([]);
});

test('checkForInit() needs space for the databases that are restored, because their snapshots are deleted only afterwards', async () => {
  const { begun, checks } = createChecks();
  const bundleManifest = Buffer.from(encodeManifest(MANIFEST)).toString('utf8');
  const spec = { ...SPEC, bundleManifest };
  const checked = checks.checkForInit(spec, 700);
  await settle();
  expect(begun[0]?.options.neededBytes['/var/lib/cluster']).toBe(700 + 60 + GIB);
  begun[0]?.end.resolve();
  await checked;
});

test.each([
  { backend: 'vxlan', needsWireguard: false },
  { backend: 'wireguard', needsWireguard: true },
])(
  'checkForInit() asks for WireGuard in a cluster whose pod network has the backend $backend: $needsWireguard',
  async ({ backend, needsWireguard }) => {
    const { begun, checks } = createChecks();
    const checked = checks.checkForInit(
      { ...SPEC, configuration: JSON.stringify({ networking: { backend } }) },
      0,
    );
    await settle();
    expect(begun[0]?.options).toMatchObject({ needsWireguard });
    begun[0]?.end.resolve();
    await checked;
  },
);

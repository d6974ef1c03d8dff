import { buildKernelDefaults, readIpv6Interfaces } from '../node/kernel-defaults.ts';
import { describe, expect, test } from '@jest/globals';
import { createControlPlane, never, placeKubelet, settings, silent } from '../fake-machine.ts';
import { KUBELET_CONFIG, KUBELET_FLAGS, kubeletFiles } from './kubelet-config.ts';
import { DEFAULT_HARDENING, extraArgumentsSchema } from '../../../internal/config/index.ts';
import { STRONG_CIPHERS } from '../hardening.ts';
import { NEVER_ROTATED } from '../credentials/shared-keys.ts';
import { KUBELET_UNIT } from '../node/units.ts';

function configOf(changes: Partial<typeof settings> = {}, resolvConf?: string): Record<string, unknown> {
  const text = kubeletFiles({ ...settings, ...changes }, NEVER_ROTATED, resolvConf)[KUBELET_CONFIG] ?? '';
  return JSON.parse(text) as Record<string, unknown>;
}

describe('kubeletFiles()', () => {
  test('disables certificate renewal by the kubelet and anonymous requests', () => {
    expect(configOf()).toMatchObject({
      rotateCertificates: false,
      serverTLSBootstrap: false,
      failCgroupV1: false,
      authentication: { anonymous: { enabled: false }, webhook: { enabled: true } },
      authorization: { mode: 'Webhook' },
    });
  });

  test.each([
    { given: '198.19.128.0/20', want: '198.19.128.10' },
    { given: '2001:2:0:9000::/108,198.19.128.0/20', want: '2001:2:0:9000::a' },
    { given: '10.96.0.0/12', want: '10.96.0.10' },
    { given: '10.97.3.4/12', want: '10.96.0.10' },
    { given: '192.0.2.248/28', want: '192.0.2.250' },
  ])('uses cluster DNS $want in service subnet $given, as kubeadm does', ({ given, want }) => {
    expect(configOf({ serviceSubnet: given })['clusterDNS']).toEqual([want]);
  });

  test('limits the processes of pods, and applies the seccomp profile and strong ciphers, in a new cluster', () => {
    expect(configOf({ hardening: DEFAULT_HARDENING })).toMatchObject({
      seccompDefault: true,
      podPidsLimit: 4096,
      tlsMinVersion: 'VersionTLS12',
      tlsCipherSuites: STRONG_CIPHERS,
    });
  });

  test('keeps the process limit and seccomp profile of pods unchanged in a cluster of an earlier release', () => {
    const config = configOf({ hardening: undefined });
    expect(config).toMatchObject({ seccompDefault: false, podPidsLimit: -1, tlsMinVersion: 'VersionTLS12' });
    expect(config).not.toHaveProperty('tlsCipherSuites');
  });

  test.each([
    { setting: { seccompDefault: false }, want: { seccompDefault: false } },
    { setting: { podPidsLimit: -1 }, want: { podPidsLimit: -1 } },
  ])('$setting of the configuration undoes one restriction', ({ setting, want }) => {
    const hardening = { ...DEFAULT_HARDENING, ...setting };
    const all = { seccompDefault: true, podPidsLimit: 4096, tlsCipherSuites: STRONG_CIPHERS };
    expect(configOf({ hardening })).toMatchObject({ ...all, ...want });
  });

  test('removes unused images before it evicts pods', () => {
    const { imageGCHighThresholdPercent: high, evictionHard } = configOf() as {
      readonly imageGCHighThresholdPercent: number;
      readonly evictionHard: Readonly<Record<string, string>>;
    };
    for (const signal of ['nodefs.available', 'imagefs.available'])
      expect(100 - high).toBeGreaterThan(parseInt(evictionHard[signal] ?? '', 10));
  });

  test('registers the node with its taints, and has no such setting without taints', () => {
    const taints = [{ key: 'dedicated', value: 'gpu', effect: 'NoSchedule' }] as const;
    expect(configOf({ taints })['registerWithTaints']).toEqual(taints);
    expect(configOf()).not.toHaveProperty('registerWithTaints');
  });

  test('adds the extra fields of the configuration, which can contain no field that the agent sets', () => {
    const allowed = Object.keys(extraArgumentsSchema.shape.kubelet.unwrap().shape);
    expect(Object.keys(configOf()).filter((name) => allowed.includes(name))).toEqual([]);
    expect(configOf({ extraArguments: { kubelet: { maxPods: 60 } } })).toEqual({
      ...configOf(),
      maxPods: 60,
    });
  });

  test('sets node name and address', () => {
    const flags = kubeletFiles(settings, NEVER_ROTATED, undefined)[KUBELET_FLAGS];
    expect(flags).toBe('KUBELET_KUBEADM_ARGS="--hostname-override=n1 --node-ip=198.18.0.11"\n');
  });

  test('sets both addresses of a node with IPv4 and IPv6', () => {
    const flags = kubeletFiles({ ...settings, secondaryAddress: '2001:2::11' }, NEVER_ROTATED, undefined);
    expect(flags[KUBELET_FLAGS]).toContain(' --node-ip=198.18.0.11,2001:2::11"');
  });

  test('sets the labels of region and zone, and no flag for labels without them', () => {
    const topology = { 'topology.kubernetes.io/region': 'r1', 'topology.kubernetes.io/zone': 'r1-a' };
    const host = { ...settings.host, topology };
    expect(kubeletFiles({ ...settings, host }, NEVER_ROTATED, undefined)[KUBELET_FLAGS]).toBe(
      'KUBELET_KUBEADM_ARGS="--hostname-override=n1 --node-ip=198.18.0.11 --node-labels=topology.kubernetes.io/region=r1,topology.kubernetes.io/zone=r1-a"\n',
    );
  });
});

test.each([
  {
    name: 'the resolver list of systemd-resolved if that service runs',
    running: true,
    want: '/run/systemd/resolve/resolv.conf',
  },
  {
    name: 'the machine’s /etc/resolv.conf if systemd-resolved does not run',
    running: false,
    want: undefined,
  },
])('Kubelet.start() uses $name', async ({ running, want }) => {
  const bed = createControlPlane();
  await placeKubelet(bed.files);
  if (running) {
    await bed.files.makeDirectory('/run/systemd/resolve');
    await bed.files.writeAtomic('/run/systemd/resolve/resolv.conf', 'nameserver 192.0.2.53');
  }
  await bed.kubelet().start(silent, never);
  const written = Buffer.from((await bed.files.read(KUBELET_CONFIG, 9_999)) ?? []).toString('utf8');
  expect((JSON.parse(written) as Record<string, unknown>)['resolvConf']).toBe(want);
});

test('Kubelet.start() does not restart a kubelet that kubeadm configured, but replaces its configuration', async () => {
  const bed = createControlPlane();
  await placeKubelet(bed.files);
  await bed.kubelet().start(silent, never);
  const ours = await bed.files.read(KUBELET_CONFIG, 9_999);
  await bed.files.writeAtomic(KUBELET_CONFIG, 'rotateCertificates: true\n');
  expect(await bed.kubelet().start(silent, never)).toBe(false);
  expect(await bed.files.read(KUBELET_CONFIG, 9_999)).toEqual(ours);
  expect(bed.units.moves).toEqual([`start ${KUBELET_UNIT}`]);
});

test('Kubelet.start() has its unit set the kernel parameters that the kubelet requires', async () => {
  const bed = createControlPlane();
  await placeKubelet(bed.files);
  await bed.kubelet().start(silent, never);
  const path = '/etc/sysctl.d/60-cluster-kubelet.conf';
  const text = Buffer.from((await bed.files.read(path, 9_999)) ?? []).toString('utf8');
  expect(text).toMatch(/^vm\.overcommit_memory = 1$/m);
  expect(text).toMatch(/^kernel\.panic = 10$/m);
  expect(bed.units.installed.get(KUBELET_UNIT)).toContain(`systemd-sysctl ${path}`);
});

test('Kubelet.start() has its unit forward IPv6 in a cluster with IPv6, and keep the routes that routers announce', async () => {
  const { files } = createControlPlane();
  for (const [name, value] of Object.entries({
    all: 1,
    default: 1,
    eth0: 1,
    eth1: 0,
    'eth2.5': 2,
    veth7: 1,
  })) {
    await files.makeDirectory(`/proc/sys/net/ipv6/conf/${name}`);
    await files.writeAtomic(`/proc/sys/net/ipv6/conf/${name}/accept_ra`, `${value}\n`);
  }
  const text = buildKernelDefaults(await readIpv6Interfaces(files));
  expect(text).toContain(
    '-net/ipv6/conf/eth0/accept_ra = 2\n-net/ipv6/conf/eth2.5/accept_ra = 2\nnet.ipv6.conf.all.forwarding = 1\n',
  );
  expect(text).not.toMatch(/eth1|veth7|conf.default/);
  expect(buildKernelDefaults(undefined)).not.toContain('ipv6');
});

test('Kubelet.start() does not restart a kubelet for missing hardening settings of an earlier release, but restarts it for a changed limit', async () => {
  const bed = createControlPlane();
  await placeKubelet(bed.files);
  await bed.kubelet().start(silent, never);
  expect(await bed.kubelet({ hardening: undefined }).start(silent, never)).toBe(false);
  const hardening = { ...DEFAULT_HARDENING, podPidsLimit: -1 };
  expect(await bed.kubelet({ hardening }).start(silent, never)).toBe(true);
  const extraArguments = { kubelet: { maxPods: 60 } };
  expect(await bed.kubelet({ hardening, extraArguments }).start(silent, never)).toBe(true);
});

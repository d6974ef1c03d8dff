import { describe, expect, test } from '@jest/globals';
import { recoveryKeyOfOwner } from '../backup/index.ts';
import { generateEd25519Key } from '../crypto/index.ts';
import {
  ConfigError,
  parseClusterConfig,
  parseWrittenConfig,
  parseProvisioning,
  renderClusterConfig,
} from './index.ts';
import { canonicalJson, clusterConfigJsonSchema } from './index.ts';
import type { Problem } from './index.ts';

function problemsOf(text: string): readonly Problem[] {
  try {
    parseWrittenConfig(text, 'cluster.yaml');
  } catch (error) {
    if (error instanceof ConfigError) return error.details['problems'] as readonly Problem[];
    throw error;
  }
  return [];
}

const minimal = 'version: 1\nname: prod\nattestation: {variants: [machine-key], firstContact: fingerprint}\n';

describe('parseClusterConfig()', () => {
  test("explains how to fix a file with two YAML documents, without the parser's own message", () => {
    expect(() => parseClusterConfig('a: 1\n---\nb: 2\n', 'cluster.yaml')).toThrow(
      'a second document begins here; the file must hold one',
    );
  });

  const repeats = [
    {
      name: 'of the file',
      text: `${minimal}charts: []\nname: blue\n`,
      line: 5,
      says: 'the key “name” is in line 2 already',
    },
    {
      name: 'in a map',
      text: `${minimal}join: { policy: approve, name: a, policy: approve }\n`,
      line: 4,
      says: 'the key “policy” is in line 4 already',
    },
    {
      name: 'that was appended',
      text: `${minimal}registries:\n  - name: a\nregistries:\n  - name: a\n`,
      line: 6,
      says: 'the key “registries” is in line 4 already',
    },
  ];
  test.each(repeats)('names a repeated key $name, and where it is first', ({ text, line, says }) => {
    expect(problemsOf(text)).toEqual([
      expect.objectContaining({ line, message: expect.stringContaining(says) }),
    ]);
  });

  test('fills in the defaults of missing settings', () => {
    expect(parseClusterConfig(minimal, 'cluster.yaml')).toMatchObject({
      name: 'prod',
      networking: { podSubnet: '10.244.0.0/16', serviceSubnet: '10.96.0.0/12' },
      join: { policy: 'approve' },
      firstNode: { runsWorkloads: true },
      charts: [],
    });
  });

  test('reads the output of renderClusterConfig()', () => {
    const text = renderClusterConfig({
      name: 'prod',
      endpoint: '192.0.2.11',
      fingerprint: `sha256:${'0'.repeat(64)}`,
    });
    expect(parseClusterConfig(text, 'cluster.yaml').firstNode.endpoint).toBe('192.0.2.11');
  });

  const refusals = [
    {
      name: 'an unknown key',
      given: `${minimal}colour: red\n`,
      want: { path: 'colour', line: 4, column: 1 },
    },
    {
      name: 'an unknown key in a chart',
      given: `${minimal}charts:\n  - name: a\n    chart: ./a\n    valeus: {}\n`,
      want: { path: 'charts.0.valeus', line: 7, column: 5 },
    },
    {
      name: 'another format version',
      given: minimal.replace('1', '2'),
      want: { path: 'version', line: 1, column: 10 },
    },
    { name: 'a missing name', given: 'version: 1\n', want: { path: 'name', line: 1, column: 1 } },
    { name: 'a repeated key', given: `${minimal}name: b\n`, want: { line: 4, column: 1 } },
    { name: 'text that is not YAML', given: 'version: [', want: { line: 1 } },
    { name: 'a list instead of a map', given: '- a\n', want: { path: '', line: 1 } },
    { name: 'an empty file', given: '', want: { path: 'version', line: 1 } },
    {
      name: 'a network with host bits',
      given: `${minimal}networking:\n  podSubnet: 10.1.2.3/16\n`,
      want: { line: 5, column: 14 },
    },
    {
      name: 'networks that overlap',
      given: `${minimal}networking: {podSubnet: 10.0.0.0/8, serviceSubnet: 10.1.0.0/16}\n`,
      want: { path: 'networking.serviceSubnet', line: 4 },
    },
    {
      name: 'a fingerprint that is too short',
      given: `${minimal}firstNode: {fingerprint: "sha256:ab"}\n`,
      want: { line: 4 },
    },
    {
      name: 'an unknown join policy',
      given: `${minimal}join: {policy: everybody}\n`,
      want: { path: 'join.policy' },
    },
    {
      name: 'an inventory identity of an unknown kind',
      given: `${minimal}join: {inventory: [{identity: "mac:0011223344556677", name: a}]}\n`,
      want: { path: 'join.inventory.0.identity' },
    },
    {
      name: 'two inventory machines with the same name',
      given: `${minimal}join: {inventory: [{identity: "tpm-ek:${'a'.repeat(64)}", name: a}, {identity: "tpm-ek:${'b'.repeat(64)}", name: a}]}\n`,
      want: { path: 'join.inventory.1.name' },
    },
    {
      name: 'an inventory with the same machine twice',
      given: `${minimal}join: {inventory: [{identity: "tpm-ek:${'a'.repeat(64)}", name: a}, {identity: "tpm-ek:${'a'.repeat(64)}", name: b}]}\n`,
      want: { path: 'join.inventory.1.identity' },
    },
    {
      name: 'an inventory machine without a role',
      given: `${minimal}join: {inventory: [{identity: "tpm-ek:${'a'.repeat(64)}", name: a, roles: []}]}\n`,
      want: { path: 'join.inventory.0.roles' },
    },
    {
      name: 'a label in the inventory whose prefix is not a DNS name',
      given: `${minimal}join: {inventory: [{identity: "tpm-ek:${'a'.repeat(64)}", name: a, labels: {example..org/zone: b}}]}\n`,
      want: { path: 'join.inventory.0.labels.example..org/zone', line: 4 },
    },
    {
      name: 'a label of Kubernetes in the inventory',
      given: `${minimal}join: {inventory: [{identity: "tpm-ek:${'a'.repeat(64)}", name: a, labels: {zone: b, node-role.kubernetes.io/control-plane: ""}}]}\n`,
      want: { path: 'join.inventory.0.labels.node-role.kubernetes.io/control-plane', line: 4 },
    },
    {
      name: 'a remote chart without a version',
      given: `${minimal}charts: [{name: a, chart: "oci://h/a"}]\n`,
      want: { path: 'charts.0.version' },
    },
    {
      name: 'a local chart with a version',
      given: `${minimal}charts: [{name: a, chart: ./a, version: 1.0.0}]\n`,
      want: { path: 'charts.0.version' },
    },
    {
      name: 'plain HTTP for a chart that does not come from a registry',
      given: `${minimal}charts: [{name: a, chart: ./a, plainHttp: true}]\n`,
      want: { path: 'charts.0.plainHttp', line: 4, column: 43 },
    },
    {
      name: 'plain HTTP for a Helm repository, whose URL says it already',
      given: `${minimal}charts: [{name: a, chart: a, version: 1.0.0, repository: "http://h", plainHttp: true}]\n`,
      want: { path: 'charts.0.plainHttp' },
    },
    {
      name: 'a Helm repository for a chart from a registry',
      given: `${minimal}charts: [{name: a, chart: "oci://h/a", version: 1.0.0, repository: "https://h"}]\n`,
      want: { path: 'charts.0.repository' },
    },
    {
      name: 'a chart that depends on a missing chart',
      given: `${minimal}charts: [{name: a, chart: ./a, needs: [b]}]\n`,
      want: { path: 'charts.0.needs.0' },
    },
    {
      name: 'a chart that depends on itself',
      given: `${minimal}charts: [{name: a, chart: ./a, needs: [a]}]\n`,
      want: { path: 'charts.0.needs.0' },
    },
    {
      name: 'two charts with the same name',
      given: `${minimal}charts: [{name: a, chart: ./a}, {name: a, chart: ./b}]\n`,
      want: { path: 'charts.1.name' },
    },
    {
      name: 'a mistyped address in the SANs',
      given: `${minimal}apiServer: {extraSans: [1.2.3]}\n`,
      want: { path: 'apiServer.extraSans.0' },
    },
  ];
  test.each(refusals)('parseClusterConfig() refuses $name and reports the position', ({ given, want }) => {
    expect(problemsOf(given)[0]).toMatchObject(want);
  });

  test('does not expand nested YAML aliases without limit', () => {
    const bomb = [
      'a: &a [x,x,x,x,x,x,x,x,x,x]',
      ...'bcdefgh'
        .split('')
        .map((name, i) => `${name}: &${name} [${Array(9).fill(`*${'abcdefgh'[i]}`).join(',')}]`),
    ];
    expect(problemsOf(bomb.join('\n'))).toMatchObject([{ message: expect.stringContaining('alias') }]);
  });
});

test('the JSON Schema refuses unknown keys like the parser', () => {
  expect(clusterConfigJsonSchema()).toMatchObject({ type: 'object', additionalProperties: false });
});

test('parseClusterConfig() accepts a stored configuration with a label that an older version accepted', () => {
  const label = 'node-role.kubernetes.io/control-plane';
  const entry = `{identity: "tpm-ek:${'a'.repeat(64)}", name: a, labels: {${label}: ""}}`;
  const { join } = parseClusterConfig(`${minimal}join: {inventory: [${entry}]}\n`, 'stored');
  expect(join.inventory[0]?.labels).toEqual({ [label]: '' });
});

test('canonicalJson() does not depend on the order of keys, at any depth', () => {
  expect(canonicalJson({ b: [{ d: 1, c: 2 }], a: 1 })).toBe(canonicalJson({ a: 1, b: [{ c: 2, d: 1 }] }));
});

describe('parseProvisioning()', () => {
  const good = {
    version: 1,
    platform: 'local',
    ownerKeys: [Buffer.alloc(32, 7).toString('base64')],
    tpm: { kind: 'socket', path: '/run/tpm' },
  };

  test('accepts the provisioning file that `cluster mini` writes', () => {
    const given = {
      ...good,
      seedStores: ['/seed'],
      nodeName: 'n1',
      address: '198.18.0.11',
      kubelet: { failCgroupV1: false },
    };
    expect(parseProvisioning(JSON.stringify(given)).cluster).toBeUndefined();
    expect(parseProvisioning(JSON.stringify(given))).toMatchObject({
      seedStores: ['/seed'],
      kubelet: { failCgroupV1: false },
      joinEndpoints: [],
    });
  });

  test('lets only a local machine run with cgroup v1', () => {
    const given = (platform: string, kubelet: object) => JSON.stringify({ ...good, platform, kubelet });
    expect(() => parseProvisioning(given('metal', { failCgroupV1: false }), 'p.json')).toThrow(
      expect.objectContaining({
        code: 'config-provisioning-invalid',
        message: expect.stringMatching(
          /^reading p\.json: kubelet\.failCgroupV1: false is only for platform local/,
        ) as unknown,
      }),
    );
    expect(parseProvisioning(given('metal', { failCgroupV1: true })).kubelet.failCgroupV1).toBe(true);
    expect(parseProvisioning(given('local', { failCgroupV1: false })).kubelet.failCgroupV1).toBe(false);
  });

  const disk = {
    device: '/dev/disk/by-id/virtio-state',
    recoveryRecipients: ['age1eqsckkca230dt2w5h68h3gnqqrevhygq5fljj85z3m4cz9lmd46sxk3ed0'],
  };

  test('authenticates the sectors of a state disk, and seals it to PCR 7, unless the file says otherwise', () => {
    expect(parseProvisioning(JSON.stringify({ ...good, stateDisk: disk })).stateDisk).toEqual({
      ...disk,
      pcrs: [7],
      integrity: true,
      recoveryThreshold: 1,
    });
    expect(parseProvisioning(JSON.stringify(good)).stateDisk).toBeUndefined();
  });

  test.each([
    ['without a TPM', { tpm: { kind: 'none' } }, {}, 'needs a TPM'],
    ['that is sealed to the lock register', {}, { pcrs: [7, 15] }, 'without 15'],
    [
      'that is sealed to another lock register',
      { tpm: { ...good.tpm, lockPcr: 8 } },
      { pcrs: [8] },
      'without 8',
    ],
    ['that is sealed to no PCR', {}, { pcrs: [] }, 'pcrs'],
    ['that is sealed to a PCR twice', {}, { pcrs: [7, 7] }, 'differ from each other'],
    ['that is sealed to a PCR that every process may reset', {}, { pcrs: [16] }, 'pcrs'],
    [
      'with an approval key that is none',
      {},
      { approvalKey: Buffer.alloc(33).toString('base64') },
      'compressed point',
    ],
    ['without a recovery recipient', {}, { recoveryRecipients: [] }, 'recoveryRecipients'],
    [
      'with a typing error in a recovery recipient',
      {},
      { recoveryRecipients: [`${disk.recoveryRecipients[0]}q`] },
      'age1',
    ],
    [
      'with shares for the same recipient twice, once in upper case',
      {},
      {
        recoveryThreshold: 2,
        recoveryRecipients: [disk.recoveryRecipients[0], disk.recoveryRecipients[0]?.toUpperCase()],
      },
      'recipients that differ',
    ],
    [
      'with shares for 33 recipients',
      {},
      {
        recoveryThreshold: 2,
        recoveryRecipients: Array.from(
          { length: 33 },
          () => recoveryKeyOfOwner(generateEd25519Key()).recipient,
        ),
      },
      'at most 32 recipients',
    ],
    [
      'that needs more owners than it has',
      {},
      { recoveryThreshold: 2 },
      'at most the number of recipients (1)',
    ],
    ['that needs no owner', {}, { recoveryThreshold: 0 }, 'recoveryThreshold'],
    ['outside /dev', {}, { device: '/var/lib/disk' }, 'below /dev'],
    ['with an unknown key', {}, { integrety: false }, 'integrety'],
  ])('refuses a state disk %s', (_, more, over, says) => {
    const given = { ...good, ...more, stateDisk: { ...disk, ...over } };
    expect(() => parseProvisioning(JSON.stringify(given))).toThrow(
      expect.objectContaining({
        code: 'config-provisioning-invalid',
        message: expect.stringContaining(says) as unknown,
      }),
    );
  });

  const refusals = [
    { name: 'a file without an owner key', given: { ...good, ownerKeys: [] } },
    {
      name: 'an owner key with a wrong length',
      given: { ...good, ownerKeys: [Buffer.alloc(31).toString('base64')] },
    },
    {
      name: 'an owner key in non-canonical base64',
      given: { ...good, ownerKeys: [`${Buffer.alloc(32).toString('base64')} `] },
    },
    { name: 'an unknown platform', given: { ...good, platform: 'cloud' } },
    { name: 'an unknown kind of TPM', given: { ...good, tpm: { kind: 'fake' } } },
    { name: 'a relative path of a file', given: { ...good, seedStores: ['seed'] } },
    { name: 'an unknown key', given: { ...good, ownerkeys: [] } },
    { name: 'another format version', given: { ...good, version: 2 } },
    { name: 'a pinned cluster without its CA', given: { ...good, cluster: { id: 'a'.repeat(32) } } },
    {
      name: 'an invalid cluster ID',
      given: { ...good, cluster: { id: 'A'.repeat(32), caSha256: 'b'.repeat(64) } },
    },
    {
      name: 'a digest with a wrong length',
      given: { ...good, cluster: { id: 'a'.repeat(32), caSha256: 'b'.repeat(40) } },
    },
    {
      name: 'an unknown key of the pinned cluster',
      given: { ...good, cluster: { id: 'a'.repeat(32), caSha256: 'b'.repeat(64), name: 'prod' } },
    },
    { name: 'a DNS name instead of an IP address', given: { ...good, address: 'node1' } },
  ];
  test.each(refusals)('parseProvisioning() refuses $name', ({ given }) => {
    expect(() => parseProvisioning(JSON.stringify(given))).toThrow(
      expect.objectContaining({ code: 'config-provisioning-invalid' }),
    );
  });

  test('refuses a provisioning file that is not JSON', () => {
    expect(() => parseProvisioning('{')).toThrow(
      expect.objectContaining({ code: 'config-provisioning-invalid' }),
    );
  });
});

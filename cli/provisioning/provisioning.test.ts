import { describe, expect, test } from '@jest/globals';
import { recoveryKeyOfOwner } from '../../internal/backup/index.ts';
import { approvalKeyOfOwner } from '../../internal/statedisk/index.ts';
import { parseProvisioning, provisioningJsonSchema } from '../../internal/config/index.ts';
import { FakeClock } from '../../internal/testing/fake-clock.ts';
import { FakeCommands, MemoryFiles } from '../../internal/testing/index.ts';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { RecordingHost } from '../host/fake-host.ts';
import { generateWorkspace } from '../cluster/index.ts';
import { asProcess } from '../cluster/init/fake-workstation.ts';
import { runProvisioningGenerate, runProvisioningSchema, runProvisioningValidate } from './index.ts';
import { layoutOf, readOwnerKey } from '../workspace/index.ts';
import { noPassphrases } from '../workspace/fake-passphrases.ts';

const KEY = Buffer.alloc(32, 7).toString('base64');
const plain = {
  ownerKeys: [KEY],
  tpmDevice: '/dev/tpmrm0',
  joinEndpoints: [],
  recoveryRecipients: [],
  format: 'provisioning',
} as const;

const provisioning = (address: string): string =>
  JSON.stringify({ version: 1, platform: 'metal', ownerKeys: [KEY], tpm: { kind: 'none' }, address });

test('parseProvisioning() writes an address as the kernel shows it', () => {
  expect(parseProvisioning(provisioning('2001:DB8:0::0001')).address).toBe('2001:db8::1');
  expect(parseProvisioning(provisioning('192.0.2.1')).address).toBe('192.0.2.1');
});

test.each(['fe80::1%eth0', '[2001:db8::1]', '2001:db8::1/64', 'n1.example.org', ''])(
  'parseProvisioning() refuses %j as an address',
  (address) => {
    expect(() => parseProvisioning(provisioning(address))).toThrow(
      expect.objectContaining({ code: 'config-provisioning-invalid' }),
    );
  },
);

async function createWorkspace() {
  const files = new MemoryFiles();
  await files.makeDirectory('/etc/cluster');
  const context = {
    host: new RecordingHost(),
    ports: { files, commands: new FakeCommands(), clock: new FakeClock() },
    paths: { cache: '/c', data: '/d', config: '/f', workspace: '/w' },
    passphrases: noPassphrases,
    env: { USER: 'me' },
    signal: new AbortController().signal,
  };
  const textOf = async (path: string): Promise<string> =>
    Buffer.from((await files.read(path, 1e5)) ?? []).toString('utf8');
  return { files, context, textOf };
}

describe('cluster provisioning generate', () => {
  test('prints a file that the agent accepts', async () => {
    const { context } = await createWorkspace();
    const more = { processor: 'tdx', nodeName: 'n1', address: '192.0.2.1', joinEndpoints: ['192.0.2.9'] };
    await runProvisioningGenerate(context, { ...plain, ...more });
    const { provisioning } = context.host.answered as { provisioning: object };
    expect(parseProvisioning(JSON.stringify(provisioning))).toMatchObject({
      ...more,
      ownerKeys: [KEY],
      tpm: { kind: 'device', path: '/dev/tpmrm0' },
    });
  });

  test('prints user data for cloud-init that writes the same file and installs the verified package', async () => {
    const { context, textOf } = await createWorkspace();
    const given = {
      package: 'https://x.example/a.deb',
      packageSha256: 'ab'.repeat(32),
      out: '/etc/cluster/u',
    };
    await runProvisioningGenerate(context, { ...plain, ...given, format: 'cloud-init' });
    const userData = await textOf(given.out);
    expect(userData).toMatch(/^#cloud-config\n/);
    const { write_files, runcmd } = parse(userData) as {
      write_files: readonly { path: string; permissions: string; content: string }[];
      runcmd: readonly (readonly string[])[];
    };
    expect(write_files).toMatchObject([{ path: '/etc/cluster/provisioning.json', permissions: '0600' }]);
    expect(parseProvisioning(write_files[0]?.content ?? '').ownerKeys).toEqual([KEY]);
    expect(runcmd[0]?.slice(-2)).toEqual([given.package, given.packageSha256]);
  });

  test('refuses a package beside a provisioning file, which would install nothing', async () => {
    const { context, files } = await createWorkspace();
    const given = { package: 'file:///a.deb', out: '/etc/cluster/u' };
    await expect(runProvisioningGenerate(context, { ...plain, ...given })).rejects.toMatchObject({
      code: 'cloudinit-package-invalid',
    });
    expect(await files.stat(given.out)).toBeUndefined();
  });

  test('creates a file with mode 0600, can be repeated, and never overwrites another file', async () => {
    const { context, files, textOf } = await createWorkspace();
    const out = '/etc/cluster/provisioning.json';
    await runProvisioningGenerate(context, { ...plain, tpmDevice: undefined, out });
    expect((await files.stat(out))?.mode).toBe(0o600);
    const before = await textOf(out);
    expect(parseProvisioning(before).tpm).toEqual({ kind: 'none' });
    await runProvisioningGenerate(context, { ...plain, tpmDevice: undefined, out }); // the same file
    const again = runProvisioningGenerate(context, { ...plain, out });
    await expect(again).rejects.toMatchObject({ code: 'app-file-exists' });
    expect(await textOf(out)).toBe(before);
  });

  test.each([
    { name: 'an invalid key', given: { ownerKeys: ['abc'] } },
    { name: 'an invalid address', given: { address: '300.1.1.1' } },
    { name: 'a name that is not a DNS label', given: { nodeName: 'N_1' } },
  ])('refuses $name, and writes nothing', async ({ given }) => {
    const { context, files } = await createWorkspace();
    const out = '/etc/cluster/provisioning.json';
    const made = runProvisioningGenerate(context, { ...plain, ...given, out });
    await expect(made).rejects.toMatchObject({ code: 'provisioning-flag-invalid', exit: 'usage' });
    expect(await files.stat(out)).toBeUndefined();
  });

  test('uses the owner key of the workspace, and warns of evidence that its cluster does not accept', async () => {
    const { context, files } = await createWorkspace();
    const result = runProvisioningGenerate(context, { ...plain, ownerKeys: [] });
    await expect(result).rejects.toMatchObject({ code: 'provisioning-no-owner' });
    await asProcess(files, 1);
    const { ownerKey } = await generateWorkspace(context, { name: 'prod' });
    await runProvisioningGenerate(context, { ...plain, ownerKeys: [] });
    expect(context.host.answered).toMatchObject({ provisioning: { ownerKeys: [ownerKey.pubKeyBase64] } });
    expect(context.host.codes).not.toContain('provisioning-variant');
    await runProvisioningGenerate(context, { ...plain, tpmDevice: undefined });
    expect(context.host.codes).toContain('provisioning-variant');
  });
});

describe('cluster provisioning generate --state-disk', () => {
  const stateDisk = '/dev/disk/by-id/state';
  const OTHER = 'age1eqsckkca230dt2w5h68h3gnqqrevhygq5fljj85z3m4cz9lmd46sxk3ed0';
  const diskOf = (context: { readonly host: RecordingHost }) =>
    parseProvisioning(JSON.stringify((context.host.answered as { provisioning: object }).provisioning))
      .stateDisk;

  test('prints user data for cloud-init that installs the programs of the disk', async () => {
    const runcmdOf = async (disk: { readonly stateDisk?: string }) => {
      const { context } = await createWorkspace();
      const given = { recoveryRecipients: [OTHER], package: 'file:///a.deb', format: 'cloud-init' } as const;
      const recipients = disk.stateDisk === undefined ? { recoveryRecipients: [] } : {};
      await runProvisioningGenerate(context, { ...plain, ...given, ...recipients, ...disk });
      const { cloudConfig } = context.host.answered as { cloudConfig: string };
      return (parse(cloudConfig) as { runcmd: readonly (readonly string[])[] }).runcmd[0]?.slice(3);
    };
    expect(await runcmdOf({})).toEqual(['cluster-agent', 'file:///a.deb', '']);
    expect(await runcmdOf({ stateDisk })).toEqual([
      ...['cluster-agent', 'file:///a.deb', ''],
      ...['cryptsetup-bin', 'e2fsprogs'],
    ]);
  });

  test('lets the owner key of the workspace approve registers of the disk, and recover it beside others that are named', async () => {
    const { context, files } = await createWorkspace();
    await asProcess(files, 1);
    await generateWorkspace(context, { name: 'prod' });
    const { keyPem } = await readOwnerKey(context, layoutOf('/w'));
    await runProvisioningGenerate(context, { ...plain, ownerKeys: [], stateDisk });
    const own = recoveryKeyOfOwner(keyPem).recipient;
    expect(diskOf(context)).toEqual({
      device: stateDisk,
      pcrs: [7],
      integrity: true,
      approvalKey: approvalKeyOfOwner(keyPem).publicKey,
      recoveryRecipients: [own],
      recoveryThreshold: 1,
    });
    const again = { ...context, host: new RecordingHost() };
    const more = {
      ...{ stateDiskPcrs: [4, 9], stateDiskIntegrity: false },
      ...{ recoveryRecipients: [OTHER, own], recoveryThreshold: 2 },
    };
    await runProvisioningGenerate(again, { ...plain, ownerKeys: [], stateDisk, ...more });
    expect(diskOf(again)).toEqual({
      ...{ device: stateDisk, pcrs: [4, 9], integrity: false },
      recoveryRecipients: [own, OTHER],
      recoveryThreshold: 2,
    });
    expect(again.host.codes).toContain('provisioning-recovery-threshold');
    const both = { ...context, host: new RecordingHost() };
    await runProvisioningGenerate(both, {
      ...plain,
      ownerKeys: [KEY, Buffer.alloc(32, 8).toString('base64')],
      stateDisk,
      ...more,
    });
    expect(both.host.codes).not.toContain('provisioning-recovery-threshold');
  });

  test.each([
    ['a disk that nobody could recover', { stateDisk }, 'provisioning-no-owner', '--recovery-recipient'],
    [
      'a disk of a machine without a TPM',
      { stateDisk, tpmDevice: undefined, recoveryRecipients: [OTHER] },
      'provisioning-flag-invalid',
      '--no-tpm',
    ],
    [
      'recipients without a disk',
      { recoveryRecipients: [OTHER] },
      'provisioning-flag-invalid',
      '--state-disk',
    ],
    ['a threshold without a disk', { recoveryThreshold: 2 }, 'provisioning-flag-invalid', '--state-disk'],
    [
      'a threshold above the number of recipients',
      { stateDisk, recoveryRecipients: [OTHER], recoveryThreshold: 2 },
      'provisioning-flag-invalid',
      '--recovery-threshold must be at most the number of recipients (1)',
    ],
    ['PCRs without a disk', { stateDiskPcrs: [4] }, 'provisioning-flag-invalid', '--state-disk'],
    [
      'a PCR that does not exist',
      { stateDisk, stateDiskPcrs: [Number.NaN], recoveryRecipients: [OTHER] },
      'provisioning-flag-invalid',
      '--state-disk-pcrs',
    ],
    [
      'an invalid recipient',
      { stateDisk, recoveryRecipients: ['age1x'] },
      'provisioning-flag-invalid',
      '--recovery-recipient',
    ],
  ])('refuses %s, and writes nothing', async (_, given, code, says) => {
    const { context, files } = await createWorkspace();
    const out = '/etc/cluster/provisioning.json';
    const made = runProvisioningGenerate(context, { ...plain, ...given, out });
    await expect(made).rejects.toMatchObject({ code, message: expect.stringContaining(says) as unknown });
    expect(await files.stat(out)).toBeUndefined();
  });
});

describe('cluster provisioning validate', () => {
  const good = { version: 1, platform: 'metal', ownerKeys: [KEY], tpm: { kind: 'none' } };

  test.each([
    { name: 'an unknown key', given: { ...good, color: 'blue' }, want: 'unknown key "color"' },
    { name: 'an empty list of owner keys', given: { ...good, ownerKeys: [] }, want: 'ownerKeys' },
  ])('reports $name with the name of the file', async ({ given, want }) => {
    const { context, files } = await createWorkspace();
    await files.writeAtomic('/x.json', JSON.stringify(given));
    const validated = runProvisioningValidate(context, '/x.json');
    await expect(validated).rejects.toThrow(want);
    await expect(validated).rejects.toThrow('/x.json');
  });

  test('reports a missing file', async () => {
    const { context } = await createWorkspace();
    await expect(runProvisioningValidate(context, undefined)).rejects.toThrow(
      'reading /etc/cluster/provisioning.json: file is empty or does not exist',
    );
  });

  test('tests the TPM for the file of this machine only', async () => {
    const { context, files } = await createWorkspace();
    const text = JSON.stringify({ ...good, tpm: { kind: 'device', path: '/dev/no-such-tpm' } });
    await files.writeAtomic('/elsewhere.json', text, { mode: 0o666 });
    await runProvisioningValidate(context, '/elsewhere.json');
    expect(context.host.codes).toContain('provisioning-writable');
    await files.writeAtomic('/etc/cluster/provisioning.json', text, { mode: 0o600 });
    await expect(runProvisioningValidate(context, undefined)).rejects.toMatchObject({
      code: 'provisioning-tpm-unusable',
      message: expect.stringContaining('/dev/no-such-tpm'),
    });
  });
});

test('cluster provisioning validate looks for the state disk of this machine only', async () => {
  const { context, files } = await createWorkspace();
  const text = JSON.stringify({
    ...{ version: 1, platform: 'metal', ownerKeys: [KEY] },
    tpm: { kind: 'device', path: '/dev/no-such-tpm' },
    stateDisk: {
      device: '/dev/no-such-disk',
      recoveryRecipients: ['age1eqsckkca230dt2w5h68h3gnqqrevhygq5fljj85z3m4cz9lmd46sxk3ed0'],
    },
  });
  await files.writeAtomic('/elsewhere.json', text);
  await runProvisioningValidate(context, '/elsewhere.json');
  await files.writeAtomic('/etc/cluster/provisioning.json', text);
  await expect(runProvisioningValidate(context, undefined)).rejects.toMatchObject({
    code: 'provisioning-disk-missing',
    message: expect.stringContaining('/dev/no-such-disk') as unknown,
  });
});

interface Node {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Node>>;
  readonly oneOf?: readonly Node[];
}

describe('the JSON Schema', () => {
  /** All keys of the schema except those of `attestation`, which cluster.yaml has as well. */
  function keysOf(node: Node, path: string): readonly { readonly path: string; readonly node: Node }[] {
    const own = Object.entries(node.properties ?? {}).flatMap(([key, inner]) => {
      const at = path === '' ? key : `${path}.${key}`;
      return [{ path: at, node: inner }, ...(key === 'attestation' ? [] : keysOf(inner, at))];
    });
    return [...own, ...(node.oneOf ?? []).flatMap((each) => keysOf(each, path))];
  }
  const keys = keysOf(provisioningJsonSchema(), '');

  test('describes every key', async () => {
    const { context } = await createWorkspace();
    runProvisioningSchema(context);
    expect(context.host.answered).toEqual(provisioningJsonSchema());
    expect(keys.length).toBeGreaterThan(20);
    expect(keys.filter(({ node }) => node.description === undefined).map(({ path }) => path)).toEqual([]);
  });

  test('has the same keys as docs/provisioning.md', async () => {
    const page = await readFile(join(import.meta.dirname, '../../docs/provisioning.md'), 'utf8');
    const listed = [...page.matchAll(/^\| `([\w.]+)` \|/gm)].map(([, path]) => path);
    expect([...new Set(listed)].sort()).toEqual([...new Set(keys.map(({ path }) => path))].sort());
  });
});

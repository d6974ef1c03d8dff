import { describe, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { parse, stringify } from 'yaml';
import { encodeBundle, type CollateralItem } from '../../internal/attestation/collateral/index.ts';
import { attestationSettings, parseProvisioning } from '../../internal/config/index.ts';
import { TestAmd } from '../../internal/testing/evidence/index.ts';
import { der, issueCrl } from '../../internal/testing/pki/index.ts';
import { createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { runCloudInit } from './cloud-init.ts';

const DAY_MS = 86_400_000;
const amd = new TestAmd('Milan');
const crl = (more: Partial<Parameters<typeof issueCrl>[0]> = {}): CollateralItem => ({
  kind: 'crl',
  der: issueCrl({
    issuer: amd.ark,
    thisUpdateMs: Date.now() - DAY_MS,
    nextUpdateMs: Date.now() + DAY_MS,
    ...more,
  }),
});
const bundleOf = (...items: readonly CollateralItem[]): string => encodeBundle({ assembledMs: 0, items });

const SNP = {
  variants: ['sev-snp'],
  policy: {
    name: 'test',
    profile: 'identity',
    machines: 'any-proved',
    'sev-snp': {
      minimumTcb: { Milan: { bootloader: 4, tee: 0, snp: 8, microcode: 115 } },
      allowSmt: true,
      maxCollateralAgeDays: 30,
    },
  },
};

async function createOffice(uploaded: string, attestation: object | 'as generated' = SNP) {
  const asked: string[] = [];
  const harness = await createCuratorHarness(
    {},
    {
      getCollateral: async () => {
        asked.push('collateral');
        return { bundle: Buffer.from(uploaded) };
      },
    },
  );
  if (attestation !== 'as generated') {
    const path = '/owner/cluster.yaml';
    const config = parse(
      Buffer.from((await harness.files.read(path, 1 << 20)) ?? []).toString('utf8'),
    ) as object;
    await harness.files.writeAtomic(path, stringify({ ...config, attestation }));
  }
  const print = async (endpoints: readonly string[] = []) => {
    const options = {
      endpoints,
      package: undefined,
      packageSha256: undefined,
      tpm: true,
      format: 'cloud-init',
    } as const;
    await runCloudInit(harness.owner, options);
    const answer = harness.owner.host.answered as { cloudConfig: string; collateral?: string };
    const { write_files: files } = parse(answer.cloudConfig) as {
      write_files: { path: string; content: string; encoding?: string; permissions: string }[];
    };
    return { answer, files };
  };
  const said = (): readonly string[] =>
    harness.owner.host.codes.filter((code) => code.startsWith('cloud-init'));
  return { harness, asked, print, said, [Symbol.asyncDispose]: () => harness[Symbol.asyncDispose]() };
}

describe('cluster node cloud-init', () => {
  test('writes only the provisioning file if the cluster accepts no evidence of processors', async () => {
    await using office = await createOffice(bundleOf(crl()), 'as generated');
    const { files } = await office.print();
    expect(files.map(({ path }) => path)).toEqual(['/etc/cluster/provisioning.json']);
    expect(parseProvisioning(files[0]?.content ?? '').attestation).toBeUndefined();
    expect(office.asked).toEqual([]);
  });

  test('writes the ID and the CA of the cluster', async () => {
    await using office = await createOffice('', 'as generated');
    const { files } = await office.print(['192.0.2.1']);
    const { cluster } = parseProvisioning(files[0]?.content ?? '');
    const { clusterId, caSha256 } = office.harness;
    expect(cluster).toEqual({ id: clusterId, caSha256 });
  });

  test('writes the collateral of the cluster unchanged, and the attestation settings', async () => {
    const bundle = bundleOf(crl());
    await using office = await createOffice(bundle);
    const { files } = await office.print();
    const [provisioning, collateral] = files;
    const { attestation } = parseProvisioning(provisioning?.content ?? '');
    expect(attestation && attestationSettings(attestation).variants).toEqual(['sev-snp']);
    expect(collateral).toMatchObject({ path: '/etc/cluster/collateral.json', encoding: 'gz+b64' });
    expect(gunzipSync(Buffer.from(collateral?.content ?? '', 'base64')).toString()).toBe(bundle);
    expect(office.said()).toEqual([]);
  });

  test('with --endpoint, uses the collateral of the workspace and sends no request to the cluster', async () => {
    await using office = await createOffice('');
    const { harness, print, asked } = office;
    const own = { assembledMs: 0, items: [crl()] };
    await harness.files.makeDirectory('/owner/collateral');
    await harness.files.writeAtomic('/owner/collateral/bundle.json', encodeBundle(own));
    const { answer } = await print(['192.0.2.1']);
    expect(answer.collateral).toBe(encodeBundle(own));
    expect(asked).toEqual([]);
  });

  test.each([
    { name: 'the cluster has none', given: '', want: 'cloud-init-collateral-none' },
    {
      name: 'it has expired',
      given: bundleOf(crl({ nextUpdateMs: Date.now() - 1000 })),
      want: 'cloud-init-collateral-expired',
    },
    {
      name: 'it does not fit into user data',
      given: bundleOf(
        crl({ extensions: [{ oid: '1.2.3.4', value: der.octets(new Uint8Array(randomBytes(16_000))) }] }),
      ),
      want: 'cloud-init-collateral-left-out',
    },
  ])('leaves the collateral out with a warning if $name', async ({ given, want }) => {
    await using office = await createOffice(given);
    const { files, answer } = await office.print();
    expect(files.map(({ path }) => path)).toEqual(['/etc/cluster/provisioning.json']);
    expect(Buffer.byteLength(answer.cloudConfig)).toBeLessThan(16 * 1024);
    expect(office.said()).toEqual([want]);
  });
});

import { describe, expect, test } from '@jest/globals';
import { encodeBundle, type CollateralItem } from '../../internal/attestation/collateral/index.ts';
import { CodedError, defineErrors, fault } from '../../internal/errors/index.ts';
import { TestAmd } from '../../internal/testing/evidence/index.ts';
import { issueCrl } from '../../internal/testing/pki/index.ts';
import { createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { runCollateralShow, runCollateralUpload } from './cluster-collateral.ts';

const refused = defineErrors({
  'operatorapi-collateral-refused': fault.operator.refused('-', '-'),
});
const amd = new TestAmd('Milan');
const items: readonly CollateralItem[] = [
  { kind: 'certificate', der: amd.ark.der },
  { kind: 'crl', der: issueCrl({ issuer: amd.ark, nextUpdateMs: Date.UTC(2026, 6, 1) }) },
];
const UPLOADED_MS = Date.UTC(2026, 9, 1);

/** A workstation, and a cluster that stores each uploaded bundle unless it refuses. */
async function createCluster() {
  const cluster = { bundle: new Uint8Array(), isRefusing: false };
  const workstation = await createCuratorHarness(
    {},
    {
      putCollateral: async ({ bundle }) => {
        if (cluster.isRefusing) throw new CodedError(refused, 'operatorapi-collateral-refused', 'verifying');
        cluster.bundle = Uint8Array.from(bundle);
        return { evaluationNumber: 17 };
      },
      getCollateral: async () =>
        cluster.bundle.length === 0
          ? {}
          : {
              bundle: cluster.bundle,
              evaluationNumber: 17,
              updatedMs: BigInt(UPLOADED_MS),
              updatedBy: 'operator:owner',
            },
    },
  );
  const keep = async () => {
    const bundle = encodeBundle({ assembledMs: UPLOADED_MS, items });
    await workstation.files.makeDirectory('/owner/collateral');
    await workstation.files.writeAtomic('/owner/collateral/bundle.json', bundle);
  };
  return { workstation, cluster, keep, [Symbol.asyncDispose]: () => workstation[Symbol.asyncDispose]() };
}

describe('cluster attest collateral upload', () => {
  test('uploads the bundle of the workspace unchanged', async () => {
    await using harness = await createCluster();
    await harness.keep();
    await runCollateralUpload(harness.workstation.owner);
    const sent = Buffer.from(harness.cluster.bundle).toString('utf8');
    expect(sent).toBe(encodeBundle({ assembledMs: UPLOADED_MS, items }));
    expect(harness.workstation.owner.host.answered).toEqual({
      documents: 2,
      evaluationNumber: 17,
      assembled: '2026-10-01T00:00:00.000Z',
    });
  });

  test('fails if the workspace has no collateral yet', async () => {
    await using harness = await createCluster();
    await expect(runCollateralUpload(harness.workstation.owner)).rejects.toMatchObject({
      code: 'attest-collateral-missing',
    });
  });

  test('reports the refusal of the cluster', async () => {
    await using harness = await createCluster();
    await harness.keep();
    harness.cluster.isRefusing = true;
    await expect(runCollateralUpload(harness.workstation.owner)).rejects.toMatchObject({
      code: 'operatorapi-collateral-refused',
    });
  });
});

describe('cluster attest collateral show', () => {
  test('shows no documents before the first upload', async () => {
    await using harness = await createCluster();
    expect(await runCollateralShow(harness.workstation.owner)).toBe('ok');
    expect(harness.workstation.owner.host.answered).toEqual({ documents: [], evaluationNumber: 0 });
  });

  test('shows the state of each document and who uploaded it; exits 10 if one has expired', async () => {
    await using harness = await createCluster();
    harness.cluster.bundle = Buffer.from(encodeBundle({ assembledMs: UPLOADED_MS, items }));
    expect(await runCollateralShow(harness.workstation.owner)).toBe('unhealthy');
    expect(harness.workstation.owner.host.answered).toMatchObject({
      updated: '2026-10-01T00:00:00.000Z',
      updatedBy: 'operator:owner',
      documents: [{ state: 'current' }, { state: 'expired' }],
    });
  });
});

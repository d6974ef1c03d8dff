import { expect, test } from '@jest/globals';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { parseWrittenConfig, renderClusterConfig } from '../../internal/config/index.ts';
import { contextOf } from '../cluster/curator/fake-curator.ts';
import { localConfiguration, refuseOtherUse } from './restore-drill.ts';

const AT = { root: '/mini', name: 'drill' };

test('localConfiguration() keeps name and networks, and drops what a local machine cannot have', () => {
  const text = renderClusterConfig({
    ...{ name: 'prod', endpoint: '192.0.2.1:9000', fingerprint: `sha256:${'0'.repeat(64)}` },
    charts: [{ name: 'hello', namespace: 'hello', chart: './hello' }],
  });
  const attestation = parseWrittenConfig(text, 'a').attestation;
  const before = parseWrittenConfig(text, 'a');
  const local = parseWrittenConfig(
    localConfiguration(text, { ...attestation, policy: { ...attestation.policy, name: 'drill' } }),
    'b',
  );
  expect(local).toMatchObject({ name: 'prod', networking: before.networking, charts: [] });
  expect(local.firstNode).toEqual({
    name: before.firstNode.name,
    runsWorkloads: before.firstNode.runsWorkloads,
  });
  expect(local.attestation.policy).toMatchObject({ name: 'drill' });
});

test('refuseOtherUse() refuses to replace a local cluster that no drill created', async () => {
  const files = new MemoryFiles();
  const context = contextOf(files, '/owner');
  await refuseOtherUse(context, AT);
  await files.makeDirectory('/mini/drill');
  await expect(refuseOtherUse(context, AT)).rejects.toMatchObject({ code: 'mini-drill-exists' });
  await files.writeAtomic('/mini/drill/drill', '');
  await refuseOtherUse(context, AT);
});

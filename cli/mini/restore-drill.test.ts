import { expect, test } from '@jest/globals';
import { parseWrittenConfig, renderClusterConfig } from '../../internal/config/index.ts';
import { localConfiguration } from './restore-drill.ts';

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

import { expect, test } from '@jest/globals';
import { parseClusterConfig } from './cluster-config.ts';
import { clusterPartOf } from './cluster-part.ts';

const YAML = `version: 1
name: prod
attestation: { variants: [machine-key], firstContact: fingerprint }
`;
const partOf = (more: string) => clusterPartOf(parseClusterConfig(YAML + more, 'cluster.yaml'));

test('clusterPartOf() includes keys that older agents do not know only if they differ from the default', () => {
  expect(partOf('')).not.toHaveProperty('certificates.operatorMinutes');
  expect(partOf('certificates: { operatorMinutes: 525600 }')).toEqual(partOf(''));
  expect(partOf('certificates: { operatorMinutes: 6 }')).toHaveProperty('certificates.operatorMinutes', 6);
  expect(partOf('podSecurity: { enforce: baseline }')).not.toHaveProperty('podSecurity');
  expect(partOf('hardening: { seccompDefault: true }')).not.toHaveProperty('hardening');
  expect(partOf('hardening: { seccompDefault: false }')).toHaveProperty('hardening.seccompDefault', false);
  expect(partOf('networking: { plugin: flannel }')).toEqual(partOf(''));
  expect(partOf('networking: { plugin: none }')).toHaveProperty('networking.plugin', 'none');
  expect(partOf('')).not.toHaveProperty('networking.backend');
  expect(partOf('networking: { backend: wireguard }')).toHaveProperty('networking.backend', 'wireguard');
  expect(partOf('proxy: {}')).toEqual(partOf(''));
  expect(partOf('proxy: { http: "http://p:1" }')).toHaveProperty('proxy.http', 'http://p:1');
  expect(partOf('registries: []')).not.toHaveProperty('registries');
  expect(partOf('registries: [{ name: docker.io }]')).toHaveProperty('registries.0.name', 'docker.io');
  expect(partOf('authentication: { issuers: [] }')).not.toHaveProperty('authentication');
  expect(partOf('monitoring: { exporter: false }')).toEqual(partOf(''));
  expect(partOf('monitoring: { exporter: true }')).toHaveProperty('monitoring.exporter', true);
  const issuer = '{ url: https://i.example, audiences: [a] }';
  expect(partOf(`authentication: { issuers: [${issuer}] }`)).toHaveProperty('authentication.issuers.0.url');
  expect(partOf('podSecurity: { enforce: restricted }')).toHaveProperty('podSecurity.enforce', 'restricted');
});

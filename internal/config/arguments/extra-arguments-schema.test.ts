import { expect, test } from '@jest/globals';
import { parseWrittenConfig } from '../cluster-config.ts';
import { clusterPartOf, verifyConfigurationChange } from '../cluster-part.ts';
import { ConfigError } from '../errors.ts';
import { nodeSettingsFrom } from '../node-settings.ts';
import type { Problem } from '../parse-located.ts';

const YAML = `version: 1
name: prod
attestation: { variants: [machine-key], firstContact: fingerprint }
`;

const parse = (section: string) => parseWrittenConfig(YAML + section, 'cluster.yaml');
const partOf = (section: string): string => JSON.stringify(clusterPartOf(parse(section)));

function problemsOf(section: string): readonly string[] {
  try {
    parse(section);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return (error.details['problems'] as readonly Problem[]).map(({ path }) => path);
  }
}

test('nodeSettingsFrom() returns the extra arguments, and has no such key without extra arguments', () => {
  const section = `extraArguments:
  apiServer: { event-ttl: 2h30m, service-node-port-range: 20000-20999, runtime-config: "resource.k8s.io/v1beta2=true" }
  controllerManager: { node-cidr-mask-size: 25 }
  scheduler: { v: 2 }
  kubelet: { maxPods: 60, systemReserved: { cpu: 100m, memory: 1Gi }, cpuManagerPolicy: static }
`;
  expect(nodeSettingsFrom(partOf(section)).extraArguments).toEqual({
    apiServer: {
      'event-ttl': '2h30m',
      'service-node-port-range': '20000-20999',
      'runtime-config': 'resource.k8s.io/v1beta2=true',
    },
    controllerManager: { 'node-cidr-mask-size': 25 },
    scheduler: { v: 2 },
    kubelet: { maxPods: 60, systemReserved: { cpu: '100m', memory: '1Gi' }, cpuManagerPolicy: 'static' },
  });
  expect(nodeSettingsFrom(partOf(''))).not.toHaveProperty('extraArguments');
  expect(partOf('extraArguments: {}')).toBe(partOf(''));
});

test.each([
  { what: 'another authorization mode', section: 'apiServer: { authorization-mode: AlwaysAllow }' },
  { what: 'anonymous requests to the API server', section: 'apiServer: { anonymous-auth: true }' },
  { what: 'other etcd servers', section: 'apiServer: { etcd-servers: "http://192.0.2.1:2379" }' },
  {
    what: 'feature gates',
    section: 'apiServer: { feature-gates: StructuredAuthorizationConfiguration=false }',
  },
  { what: 'disabling an API version', section: 'apiServer: { runtime-config: "apps/v1=false" }' },
  { what: 'a verbosity that writes request bodies into the log', section: 'apiServer: { v: 8 }' },
  { what: 'a duration without a unit', section: 'apiServer: { event-ttl: "90" }' },
  { what: 'an empty duration', section: 'apiServer: { event-ttl: "" }' },
  {
    what: 'a port range that contains a port of this project',
    section: 'apiServer: { service-node-port-range: 10000-30000 }',
  },
  {
    what: 'a port range that ends before it begins',
    section: 'apiServer: { service-node-port-range: 30001-30000 }',
  },
  {
    what: 'a value that contains a second argument',
    section: 'apiServer: { event-ttl: "1h --anonymous-auth" }',
  },
  {
    what: 'anonymous requests to the kubelet',
    section: 'kubelet: { authentication: { anonymous: { enabled: true } } }',
  },
  { what: 'another directory for static pods', section: 'kubelet: { staticPodPath: /tmp }' },
  {
    what: 'kernel parameters that affect the whole node',
    section: 'kubelet: { allowedUnsafeSysctls: ["kernel.*"] }',
  },
  {
    what: 'static CPUs for pods without reserved CPUs for the node',
    section: 'kubelet: { cpuManagerPolicy: static }',
  },
  {
    what: 'a number of parallel image pulls while pulls are serialized',
    section: 'kubelet: { maxParallelImagePulls: 3 }',
  },
  {
    what: 'a node subnet that is larger than the pod network',
    section: 'controllerManager: { node-cidr-mask-size: 16 }',
  },
  { what: 'another signing key', section: 'controllerManager: { cluster-signing-key-file: /tmp/key }' },
])('extraArgumentsSchema refuses $what', ({ section }) => {
  expect(new Set(problemsOf(`extraArguments: { ${section} }`)).size).toBe(1);
});

test('verifyConfigurationChange() refuses a change of the extra arguments or the pod network after the init', () => {
  for (const section of ['extraArguments: { scheduler: { v: 2 } }', 'networking: { plugin: none }'])
    expect(() => verifyConfigurationChange(partOf(''), partOf(section))).toThrow('cannot change');
});

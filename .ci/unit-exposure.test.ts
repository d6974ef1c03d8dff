import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { consensusLayout, ETCD_INSTANCES, ETCD_NAMES } from '../bootstrapper/consensus/index.ts';
import { buildEtcdUnit } from '../bootstrapper/consensus/unit/etcd-unit.ts';
import {
  buildMetadataGuardUnit,
  METADATA_GUARD_UNIT,
} from '../bootstrapper/kubernetes/node/metadata-guard.ts';
import {
  buildContainerdUnit,
  buildKubeletUnit,
  CONTAINERD_UNIT,
  KUBELET_UNIT,
} from '../bootstrapper/kubernetes/node/units.ts';
import {
  buildExporterUnit,
  buildForwarderUnit,
  EXPORTER_UNIT,
  JOINSERVICE_UNIT,
  SIGNER_UNIT,
} from '../bootstrapper/units/index.ts';
import { buildJoinserviceUnit } from '../bootstrapper/units/joinservice-unit.ts';
import { buildSignerUnit } from '../bootstrapper/units/signer-config.ts';
import { readHardening, renderHardening } from './hardening.ts';

const LIMIT = 3;
const PACKAGE = join(import.meta.dirname, 'package');
const forwarder = { description: 'test', configFile: '/etc/x/config.json', settings: 'TasksMax=64' };
const credentials = {
  'cluster-ca.crt': '/a',
  'curator.crt': '/b',
  'curator.key': '/c',
  'etcd-ca.crt': '/d',
  'etcd.crt': '/e',
  'etcd.key': '/f',
  'apiserver-ca.crt': '/g',
};
const etcdFiles = { caFile: '/a', certFile: '/b', keyFile: '/c' };

const texts: readonly (readonly [unit: string, text: string])[] = [
  ...['bootstrapper.service', 'cluster-fingerprint.service'].map(
    (unit) => [unit, readFileSync(join(PACKAGE, unit), 'utf8')] as const,
  ),
  [KUBELET_UNIT, buildKubeletUnit()],
  [CONTAINERD_UNIT, buildContainerdUnit()],
  [METADATA_GUARD_UNIT, buildMetadataGuardUnit()],
  ...ETCD_NAMES.map((name) => {
    const etcd = ETCD_INSTANCES[name];
    const layout = consensusLayout('/var/lib/cluster', name);
    return [etcd.unit, buildEtcdUnit({ etcd, etcdBinary: '/opt/cluster/bin/etcd', layout })] as const;
  }),
  // Balancer and relay share one text.
  ['cluster-relay.service', buildForwarderUnit(forwarder)],
  [EXPORTER_UNIT, buildExporterUnit({ cert: '/a', key: '/b', apiServersCa: '/c' }, '')],
  [
    JOINSERVICE_UNIT,
    buildJoinserviceUnit({
      ...{ stateDir: '/var/lib/cluster', stores: ['/var/lib/cluster/store'], credentialsSha256: '' },
      credentials,
    }),
  ],
  [
    SIGNER_UNIT,
    buildSignerUnit({ stateDir: '/var/lib/cluster', etcd: etcdFiles, keys: {}, credentialsSha256: '' }),
  ],
];

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'cluster-units-'));
});
afterAll(() => rmSync(directory, { recursive: true }));

/** The exposure from 0 (safe) to 10. */
function exposureOf(unit: string, text: string): number {
  const path = join(directory, unit);
  writeFileSync(path, text);
  const argv = ['security', '--offline=true', '--no-pager', path];
  const output = execFileSync('systemd-analyze', argv, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  return Number(/Overall exposure level for \S+: ([0-9.]+)/.exec(output)?.[1]);
}

test.each(texts)('%s has an exposure of at most 3.0, or a reason for a higher one', (unit, text) => {
  const hasReason = Object.hasOwn(readHardening().units, unit);
  const exposure = exposureOf(unit, text);
  if (hasReason) expect(exposure).toBeGreaterThan(LIMIT);
  else expect(exposure).toBeLessThanOrEqual(LIMIT);
});

test('the reasons are for units that exist, and the page of the hardening has no problems', () => {
  const names = texts.map(([unit]) => unit);
  expect(Object.keys(readHardening().units).filter((unit) => !names.includes(unit))).toEqual([]);
  expect(renderHardening(readHardening()).problems).toEqual([]);
});

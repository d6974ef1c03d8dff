import { beforeEach, describe, expect, test } from '@jest/globals';
import { put } from '../../internal/etcd/index.ts';
import { contentOf, fieldsOf, STORED_PREFIX } from '../../internal/kube/stored/index.ts';
import { MemoryEtcd } from '../../internal/testing/index.ts';
import { forgetKubernetesNodes } from './restored-kubernetes.ts';

const { signal } = new AbortController();
const KEPT = [{ name: 'w1' }];

let store: MemoryEtcd;
beforeEach(() => {
  store = new MemoryEtcd();
});

/** A length-delimited field of protobuf, shorter than 16 KiB. */
const field = (number: number, ...contents: readonly (string | Buffer)[]): Buffer => {
  const bytes = Buffer.concat(contents.map((each) => Buffer.from(each)));
  const length = bytes.length < 128 ? [bytes.length] : [(bytes.length % 128) + 128, bytes.length >> 7];
  return Buffer.concat([Buffer.from([number * 8 + 2, ...length]), bytes]);
};
const stored = (kind: string, ...fields: readonly Buffer[]): Buffer =>
  Buffer.concat([STORED_PREFIX, field(1, field(1, 'v1'), field(2, kind)), field(2, ...fields), field(3, '')]);
const metadata = (...fields: readonly Buffer[]): Buffer => field(1, field(1, 'web'), ...fields);

const podOn = (nodeName: string, ...more: readonly Buffer[]): Buffer =>
  stored('Pod', metadata(...more), field(2, nodeName === '' ? '' : field(10, nodeName)));
const endpoint = (ip: string, nodeName: string): Buffer =>
  field(2, field(1, ip), nodeName === '' ? '' : field(6, nodeName));
const slice = (...endpoints: readonly Buffer[]): Buffer =>
  stored('EndpointSlice', metadata(), ...endpoints, field(3, field(1, 'http')), field(4, 'IPv4'));
const address = (number: 1 | 2, ip: string, nodeName: string): Buffer =>
  field(number, field(1, ip), field(4, nodeName));
const subset = (...addresses: readonly Buffer[]): Buffer =>
  field(2, ...addresses, field(3, field(1, 'http')));

async function forget(
  before: Readonly<Record<string, Uint8Array>>,
): Promise<Readonly<Record<string, Uint8Array>>> {
  const then = Object.entries(before).map(([key, value]) => put(key, value));
  await store.commit({ when: [], then }, { signal });
  await forgetKubernetesNodes(store, KEPT, signal);
  const { entries } = await store.list('/registry/', { signal });
  return Object.fromEntries(entries.map(({ key, value }) => [key, value]));
}

describe('forgetKubernetesNodes()', () => {
  test('deletes nodes and leases, and keeps those of kept workers and every other object', async () => {
    const kept = [
      ...['/registry/leases/default/app', '/registry/secrets/default/s'],
      ...['/registry/minions/w1', '/registry/csinodes/w1', '/registry/leases/kube-node-lease/w1'],
    ];
    const gone = [
      '/registry/minions/n1',
      '/registry/minions/w11',
      '/registry/masterleases/192.0.2.1',
      '/registry/leases/kube-node-lease/n1',
    ];
    const after = await forget(
      Object.fromEntries([...kept, ...gone].map((key) => [key, new Uint8Array([1])])),
    );
    expect(Object.keys(after)).toEqual(kept.toSorted());
  });

  test('deletes the pods of gone nodes, without those that a controller has to see end', async () => {
    const kept = {
      '/registry/pods/default/encrypted': Buffer.from('k8s:enc:secretbox:v1:key:'),
      '/registry/pods/default/kept': podOn('w1'),
      '/registry/pods/default/of-a-job': podOn('n1', field(14, 'batch.kubernetes.io/job-tracking')),
      '/registry/pods/default/pending': podOn(''),
    };
    const after = await forget({
      ...kept,
      '/registry/pods/default/gone': podOn('n1'),
      '/registry/pods/default/similar': podOn('w11'),
    });
    expect(after).toEqual(kept);
  });

  test('takes the endpoints on gone nodes out of EndpointSlices, and keeps the others', async () => {
    const [gone, kept, without] = [
      endpoint('192.0.2.1', 'n1'),
      endpoint('192.0.2.2', 'w1'),
      endpoint('192.0.2.3', ''),
    ];
    const others = Array.from({ length: 20 }, (_, index) => endpoint(`192.0.2.1${index}`, 'w1'));
    const after = await forget({
      '/registry/endpointslices/default/web-a': slice(gone, kept, gone, without, ...others),
      '/registry/endpointslices/default/web-b': slice(gone),
      '/registry/endpointslices/default/web-c': slice(kept),
    });
    expect(after).toEqual({
      '/registry/endpointslices/default/web-a': slice(kept, without, ...others),
      '/registry/endpointslices/default/web-b': slice(),
      '/registry/endpointslices/default/web-c': slice(kept),
    });
  });

  test('takes the addresses on gone nodes out of Endpoints, and a subset that has no others', async () => {
    const gone = address(1, '192.0.2.1', 'n1');
    const goneUnready = address(2, '192.0.2.2', 'n1');
    const kept = address(2, '192.0.2.3', 'w1');
    const key = '/registry/services/endpoints/default/web';
    const after = await forget({
      [key]: stored('Endpoints', metadata(), subset(gone, kept), subset(gone, goneUnready)),
    });
    expect(after).toEqual({ [key]: stored('Endpoints', metadata(), subset(kept)) });
  });

  test('deletes the endpoints of the old API servers, and those of no other Service', async () => {
    const external = stored('Endpoints', metadata(), subset(field(1, field(1, '203.0.113.1'))));
    const kept = {
      '/registry/endpointslices/default/kubernetes-external': slice(endpoint('203.0.113.1', '')),
      '/registry/services/endpoints/default/external': external,
    };
    const after = await forget({
      ...kept,
      '/registry/services/endpoints/default/kubernetes': external,
      '/registry/endpointslices/default/kubernetes': slice(endpoint('192.0.2.1', '')),
    });
    expect(after).toEqual(kept);
  });

  test('changes nothing when it is repeated', async () => {
    const before = { '/registry/endpointslices/default/web': slice(endpoint('192.0.2.1', 'n1')) };
    const once = await forget(before);
    expect(await forget(once)).toEqual(once);
    const envelope = fieldsOf(Buffer.from(Object.values(once)[0] ?? '').subarray(STORED_PREFIX.length));
    expect(contentOf(fieldsOf(contentOf(envelope, 1)), 2).toString()).toBe('EndpointSlice');
  });
});

import { describe, expect, test } from '@jest/globals';
import { digestOfObject } from './object-digest.ts';

/** A length-delimited field of protobuf, shorter than 128 bytes. */
const field = (number: number, content: string | Buffer): Buffer => {
  const bytes = Buffer.from(content);
  const tag = number * 8 + 2;
  const encoded = tag < 128 ? [tag] : [(tag % 128) + 128, Math.floor(tag / 128)];
  return Buffer.concat([Buffer.from([...encoded, bytes.length]), bytes]);
};

interface Stored {
  readonly kind?: string;
  readonly name?: string;
  readonly managedFields?: string;
  readonly generation?: number;
  readonly annotation?: readonly [name: string, value: string];
  readonly spec?: string;
  /** Field 3: the status of a Deployment, the binary data of a ConfigMap. */
  readonly third?: string;
}

/** An object as Kubernetes stores it in protobuf. */
function stored(change: Stored = {}): Buffer {
  const {
    kind = 'Deployment',
    name = 'web',
    managedFields = 'kubectl',
    spec = 'three',
    third = 'x',
  } = change;
  const [key = '', value = ''] = change.annotation ?? [];
  const annotations = key === '' ? '' : field(12, Buffer.concat([field(1, key), field(2, value)]));
  const metadata = Buffer.concat([
    ...[field(1, name), Buffer.from([7 * 8, change.generation ?? 1]), Buffer.from(annotations)],
    field(17, managedFields),
  ]);
  const raw = Buffer.concat([field(1, metadata), field(2, spec), field(3, third)]);
  const typeMeta = Buffer.concat([field(1, 'apps/v1'), field(2, kind)]);
  return Buffer.concat([Buffer.from('k8s\0'), field(1, typeMeta), field(2, raw), field(3, '')]);
}

const json = (object: unknown): Buffer => Buffer.from(JSON.stringify(object));
const WIDGET = { kind: 'Widget', metadata: { name: 'a', managedFields: [1] }, spec: { n: 1 }, status: 1 };

describe('digestOfObject()', () => {
  test.each([
    { name: 'the status of a Deployment', change: { third: 'other' } },
    {
      name: 'the revision of a Deployment',
      change: { annotation: ['deployment.kubernetes.io/revision', '1'] },
    },
    { name: 'the generation', change: { generation: 2 } },
    { name: 'the managed fields', change: { managedFields: 'kube-controller-manager' } },
  ] satisfies readonly { name: string; change: Stored }[])('does not depend on $name', ({ change }) => {
    expect(digestOfObject(stored(change))).toBe(digestOfObject(stored()));
  });

  test.each([
    { name: 'the name', change: { name: 'wab' } },
    { name: 'the kind', change: { kind: 'DaemonSet' } },
    { name: 'another annotation', change: { annotation: ['example.org/owner', 'ann'] } },
    { name: 'a field of the specification', change: { spec: 'thref' } },
  ] satisfies readonly { name: string; change: Stored }[])('depends on $name', ({ change }) => {
    expect(digestOfObject(stored(change))).not.toBe(digestOfObject(stored()));
  });

  test('depends on field 3 of a kind without a status', () => {
    const before = digestOfObject(stored({ kind: 'ConfigMap' }));
    expect(digestOfObject(stored({ kind: 'ConfigMap', third: 'other' }))).not.toBe(before);
  });

  test('does not depend on status, managed fields and order of an object in JSON, but on the rest', () => {
    const { status: _, ...rest } = WIDGET;
    const same = {
      ...rest,
      status: { ready: true },
      metadata: { generation: 2, managedFields: [], name: 'a' },
    };
    expect(digestOfObject(json(same))).toBe(digestOfObject(json(WIDGET)));
    const other = { ...WIDGET, spec: { n: 2 } };
    expect(digestOfObject(json(other))).not.toBe(digestOfObject(json(WIDGET)));
  });

  test('depends on each byte of other content', () => {
    const whole = stored();
    for (const value of [
      Buffer.from('k8s:enc:secretbox:v1:key:'),
      Buffer.from('{"kind":'),
      Buffer.from('null'),
      Buffer.alloc(0),
      ...Array.from({ length: whole.length }, (_, length) => whole.subarray(0, length)),
    ]) {
      const changed = Buffer.concat([value, Buffer.from('x')]);
      expect(digestOfObject(changed)).not.toBe(digestOfObject(value));
    }
  });
});

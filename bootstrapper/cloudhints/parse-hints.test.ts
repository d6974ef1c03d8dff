import { describe, expect, test } from '@jest/globals';
import { CloudHintsError } from './errors.ts';
import { addressFrom, nameFrom, topologyFrom } from './index.ts';
import { parseHints, type RawHints } from './parse-hints.ts';

const NONE: RawHints = { name: undefined, address: '', region: undefined, zone: '' };

describe('parseHints()', () => {
  test.each([
    { name: 'n1', want: 'n1' },
    { name: 'N1.Example.ORG', want: 'n1' },
    { name: 'a_b', want: undefined },
    { name: '-a', want: undefined },
    { name: '../../etc', want: undefined },
    { name: 'a'.repeat(64), want: undefined },
    { name: '', want: undefined },
  ])('turns the name "$name" of the metadata into $want', ({ name, want }) => {
    expect(parseHints({ ...NONE, name })).toEqual(want === undefined ? {} : { name: want });
  });

  test.each<Partial<RawHints>>([
    { name: `a.${'b'.repeat(252)}` },
    { address: '10.0.0' },
    { address: '10.0.0.1/24' },
    { region: 'a b' },
    { region: 'a=b' },
    { zone: 'a'.repeat(64) },
    { zone: 'ä' },
  ])('refuses %j', (raw) => {
    expect(() => parseHints({ ...NONE, ...raw })).toThrow(CloudHintsError);
  });
});

describe('addressFrom()', () => {
  const own = ['10.0.0.1', '10.0.0.2'];
  test.each([
    { name: 'the provisioned address', provisioned: '10.0.0.9', hinted: '10.0.0.2', want: '10.0.0.9' },
    {
      name: 'the own address that the cloud names',
      provisioned: undefined,
      hinted: '10.0.0.2',
      want: '10.0.0.2',
    },
    {
      name: 'the first own address if the cloud names another',
      provisioned: undefined,
      hinted: '203.0.113.7',
      want: '10.0.0.1',
    },
    {
      name: 'the first own address without a hint',
      provisioned: undefined,
      hinted: undefined,
      want: '10.0.0.1',
    },
  ])('chooses $name', ({ provisioned, hinted, want }) => {
    expect(addressFrom({ address: provisioned }, own, { address: hinted })).toBe(want);
  });

  test('returns undefined for a machine without an address', () => {
    expect(addressFrom({}, [], { address: '10.0.0.2' })).toBeUndefined();
  });
});

test.each([
  { provisioned: 'n1', hinted: 'n2', want: 'n1' },
  { provisioned: undefined, hinted: 'n2', want: 'n2' },
  { provisioned: undefined, hinted: undefined, want: undefined },
])(
  'nameFrom() chooses $want if the provisioned name is $provisioned and the name from the cloud is $hinted',
  ({ provisioned, hinted, want }) => {
    expect(nameFrom({ nodeName: provisioned }, { name: hinted })).toBe(want);
  },
);

test('topologyFrom() creates the region and zone labels, which a kubelet may set on its own node, and none without region and zone', () => {
  expect(topologyFrom({ region: 'us-west-2', zone: 'us-west-2b', name: 'n1' })).toEqual({
    'topology.kubernetes.io/region': 'us-west-2',
    'topology.kubernetes.io/zone': 'us-west-2b',
  });
  expect(topologyFrom({ zone: 'nova' })).toEqual({ 'topology.kubernetes.io/zone': 'nova' });
  expect(topologyFrom({ name: 'n1' })).toBeUndefined();
});

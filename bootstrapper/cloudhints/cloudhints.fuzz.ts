import type { NamedFuzzTarget } from '../../internal/testing/fuzz.ts';
import { hintsFromAzure } from './azure.ts';
import { AZURE_BYTES, NOCLOUD_BYTES, OPENSTACK_BYTES } from './fake-answers.ts';
import { parseGcpZone } from './gcp.ts';
import { hintsFromCloudInit } from './nocloud.ts';
import { hintsFromOpenStack } from './openstack.ts';
import { parseHints, parseText } from './parse-hints.ts';

const codes = ['cloudhints-'];
const bytes = (text: string): Uint8Array => Buffer.from(text);

export const targets: readonly NamedFuzzTarget[] = [
  {
    name: 'cloudhints/text',
    codes,
    seeds: ['ip-10-0-0-5.ec2.internal', '10.0.0.5', 'us-west-2b'].map(bytes),
    parse: (input) => {
      const text = parseText(input);
      return parseHints({ name: text, address: text, region: text, zone: text });
    },
  },
  {
    name: 'cloudhints/gcp-zone',
    codes,
    seeds: [bytes('projects/123456789012/zones/us-central1-a')],
    parse: (input) => parseHints({ name: '', address: '', ...parseGcpZone(parseText(input)) }),
  },
  { name: 'cloudhints/azure', codes, seeds: [AZURE_BYTES], parse: hintsFromAzure },
  {
    name: 'cloudhints/openstack',
    codes,
    seeds: [OPENSTACK_BYTES],
    parse: (input) => hintsFromOpenStack(input, bytes('10.0.0.2')),
  },
  { name: 'cloudhints/cloud-init', codes, seeds: [NOCLOUD_BYTES], parse: hintsFromCloudInit },
];

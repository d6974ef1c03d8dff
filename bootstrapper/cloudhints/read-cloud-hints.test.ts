import { expect, test } from '@jest/globals';
import { type Clock, SystemClock } from '../../internal/clock/index.ts';
import type { CloudSetting } from '../../internal/config/index.ts';
import { createMemoryLogger, FakeClock, MemoryFiles } from '../../internal/testing/index.ts';
import { AWS, AZURE, AZURE_BYTES, GCP, NOCLOUD_BYTES, OPENSTACK, RECORDED } from './fake-answers.ts';
import { type Answer, type Answers, FakeMetadataService } from './fake-metadata-service.ts';
import type { CloudHints } from './index.ts';
import { readCloudHints } from './read-cloud-hints.ts';

const PATH = '/var/lib/cluster/machine/cloud-hints.json';
const INSTANCE_DATA = '/run/cloud-init/instance-data.json';
const signal = new AbortController().signal;
const AWS_HINTS = {
  name: 'ip-10-158-112-84',
  address: '10.158.112.84',
  region: 'us-west-2',
  zone: 'us-west-2b',
};

/** Creates a machine whose cloud gives these answers, and which has these files, by path. */
async function machine(answers: Answers, given: Readonly<Record<string, string | Uint8Array>> = {}) {
  const files = new MemoryFiles();
  await files.makeDirectory('/var/lib/cluster/machine');
  for (const [path, content] of Object.entries(given)) {
    await files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
    await files.writeAtomic(path, content);
  }
  const service = await FakeMetadataService.start(answers);
  const { log, records } = createMemoryLogger();
  const read = (
    cloud: CloudSetting,
    { isBound = false, clock = new SystemClock() }: { isBound?: boolean; clock?: Clock } = {},
  ): Promise<CloudHints> =>
    readCloudHints(
      { files, clock, log },
      { ...{ cloud, path: PATH, isBound, signal }, createClient: (limited) => service.client(limited) },
    );
  const codes = (): unknown[] =>
    records.map(({ fields }) => fields?.['code']).filter((code) => code !== undefined);
  return { files, service, read, codes, [Symbol.asyncDispose]: () => service[Symbol.asyncDispose]() };
}

const firmware = (values: Readonly<Record<string, string>>) =>
  Object.fromEntries(
    Object.entries(values).map(([name, value]) => [`/sys/class/dmi/id/${name}`, `${value}\n`]),
  );

test.each<{
  cloud: CloudSetting;
  answers: Answers;
  files?: Readonly<Record<string, Uint8Array>>;
  want: CloudHints;
}>([
  { cloud: 'aws', answers: AWS, want: AWS_HINTS },
  {
    cloud: 'gcp',
    answers: GCP,
    want: { name: 'example-instance', address: '10.240.0.5', region: 'us-central1', zone: 'us-central1-a' },
  },
  {
    cloud: 'azure',
    answers: AZURE,
    want: { name: 'examplevmname', address: '10.144.133.132', region: 'westus', zone: 'westus-1' },
  },
  { cloud: 'openstack', answers: OPENSTACK, want: { name: 'test', address: '10.0.0.2', zone: 'nova' } },
  {
    cloud: 'nocloud',
    answers: {},
    files: { [INSTANCE_DATA]: NOCLOUD_BYTES },
    want: { name: 'n1', region: 'lab', zone: 'rack-3' },
  },
])('readCloudHints() reads the documented answers of $cloud', async ({ cloud, answers, files, want }) => {
  await using bed = await machine(answers, files);
  expect(await bed.read(cloud)).toEqual(want);
  expect(bed.codes()).toEqual([]);
});

test.each<{ name: keyof typeof RECORDED; cloud: CloudSetting; want: CloudHints }>([
  {
    name: 'aws2016',
    cloud: 'aws',
    want: { name: 'ip-172-3-3-15', address: '172.3.3.15', zone: 'us-east-2b' },
  },
  {
    name: 'aws2018',
    cloud: 'aws',
    want: { name: 'ip-172-31-44-13', address: '172.31.44.13', zone: 'us-east-2c' },
  },
  { name: 'azure2019', cloud: 'azure', want: { address: '10.0.0.4', region: 'eastus2' } },
])('readCloudHints() reads the answers recorded on a real machine, $name', async ({ name, cloud, want }) => {
  await using bed = await machine(RECORDED[name]);
  expect(await bed.read(cloud)).toEqual(want);
  expect(bed.codes()).toEqual([]);
});

test.each<{ name: string; dmi: Readonly<Record<string, string>>; answers: Answers; want: CloudHints }>([
  { name: 'EC2 (Nitro)', dmi: { sys_vendor: 'Amazon EC2' }, answers: AWS, want: AWS_HINTS },
  { name: 'EC2 (Xen)', dmi: { bios_version: '4.11.amazon' }, answers: AWS, want: AWS_HINTS },
  {
    name: 'Compute Engine',
    dmi: { product_name: 'Google Compute Engine' },
    answers: GCP,
    want: { name: 'example-instance', address: '10.240.0.5', region: 'us-central1', zone: 'us-central1-a' },
  },
  {
    name: 'Azure',
    dmi: { sys_vendor: 'Microsoft Corporation', chassis_asset_tag: '7783-7084-3265-9085-8269-3286-77' },
    answers: AZURE,
    want: { name: 'examplevmname', address: '10.144.133.132', region: 'westus', zone: 'westus-1' },
  },
  {
    name: 'OpenStack',
    dmi: { product_name: 'OpenStack Nova' },
    answers: OPENSTACK,
    want: { name: 'test', address: '10.0.0.2', zone: 'nova' },
  },
])('readCloudHints() recognizes $name by its firmware', async ({ dmi, answers, want }) => {
  await using bed = await machine(answers, firmware(dmi));
  expect(await bed.read('auto')).toEqual(want);
});

test.each([
  { name: 'bare metal', dmi: { sys_vendor: 'Dell Inc.', product_name: 'PowerEdge R660' } },
  {
    name: 'a machine of Hyper-V',
    dmi: { sys_vendor: 'Microsoft Corporation', product_name: 'Virtual Machine' },
  },
  { name: 'a machine without SMBIOS', dmi: {} },
])('readCloudHints() sends nothing on $name', async ({ dmi }) => {
  await using bed = await machine({ ...AWS, ...GCP, ...AZURE, ...OPENSTACK }, firmware(dmi));
  expect(await bed.read('auto')).toEqual({});
  expect(bed.service.requests).toEqual([]);
});

test('readCloudHints() sends no request and returns no hint with the setting `none`', async () => {
  await using bed = await machine(AWS, firmware({ sys_vendor: 'Amazon EC2' }));
  await bed.read('auto');
  bed.service.requests.length = 0;
  expect(await bed.read('none')).toEqual({});
  expect(bed.service.requests).toEqual([]);
});

test('readCloudHints() requests the metadata once: later answers change nothing', async () => {
  const answers: Record<string, Answer> = { ...AWS };
  await using bed = await machine(answers);
  await bed.read('aws');
  const asked = bed.service.requests.length;
  answers['GET /latest/meta-data/placement/availability-zone'] = 'eu-west-1a';
  expect(await bed.read('aws', { isBound: true })).toEqual(AWS_HINTS);
  expect(await bed.read('aws')).toEqual(AWS_HINTS);
  expect(bed.service.requests).toHaveLength(asked);
});

test('readCloudHints() sends no request on a machine that belongs to a cluster', async () => {
  await using bed = await machine(AWS);
  expect(await bed.read('aws', { isBound: true })).toEqual({});
  expect(bed.service.requests).toEqual([]);
});

test.each(['', 'x', '{"cloud":"aws","zone":"a b"}', '{"cloud":"aws","roles":["ConsensusMember"]}'])(
  'readCloudHints() requests the metadata again if the saved file is %j',
  async (kept) => {
    await using bed = await machine(AWS, { [PATH]: kept });
    expect(await bed.read('aws')).toEqual(AWS_HINTS);
  },
);

test('readCloudHints() ends after five seconds when the service does not respond', async () => {
  await using bed = await machine({ 'PUT /latest/api/token': () => undefined });
  const clock = new FakeClock();
  const reading = bed.read('aws', { clock });
  await clock.advance(5_000);
  expect(await reading).toEqual({});
  expect(bed.codes()).toEqual(['cloudhints-unavailable']);
});

test('readCloudHints() ends after five seconds when an answer never ends', async () => {
  await using bed = await machine({
    'PUT /latest/api/token': (response) => void response.write('a'),
  });
  const clock = new FakeClock();
  const reading = bed.read('aws', { clock });
  await clock.advance(5_000);
  expect(await reading).toEqual({});
});

const at = (path: string, answer: Answer): Answers => ({ ...AWS, [path]: answer });
const TOKEN_PATH = 'PUT /latest/api/token';
const ZONE_PATH = 'GET /latest/meta-data/placement/availability-zone';
const status =
  (code: number): Answer =>
  (response) =>
    response.writeHead(code).end();
const azure = (text: string): Answers => ({ 'GET /metadata/instance?api-version=2020-09-01': text });

test.each<{ name: string; cloud: CloudSetting; answers: Answers; code: string }>([
  {
    name: 'a redirect, and does not follow it',
    cloud: 'aws',
    answers: {
      ...at(ZONE_PATH, (response) => response.writeHead(302, { location: '/elsewhere' }).end()),
      'GET /elsewhere': 'eu-1',
    },
    code: 'cloudhints-unavailable',
  },
  {
    name: 'an answer of a proxy',
    cloud: 'aws',
    answers: at(ZONE_PATH, status(407)),
    code: 'cloudhints-unavailable',
  },
  {
    name: 'an error status',
    cloud: 'aws',
    answers: at(TOKEN_PATH, status(500)),
    code: 'cloudhints-unavailable',
  },
  {
    name: 'a service without tokens',
    cloud: 'aws',
    answers: at(TOKEN_PATH, status(404)),
    code: 'cloudhints-answer-invalid',
  },
  {
    name: 'a token that would add a header',
    cloud: 'aws',
    answers: at(TOKEN_PATH, 'a\r\nb: c'),
    code: 'cloudhints-answer-invalid',
  },
  {
    name: 'an answer that is huge and otherwise right',
    cloud: 'azure',
    answers: azure(
      JSON.stringify({ ...(JSON.parse(AZURE_BYTES.toString()) as object), tags: 'a'.repeat(70_000) }),
    ),
    code: 'cloudhints-answer-invalid',
  },
  {
    name: 'huge headers',
    cloud: 'aws',
    answers: at(ZONE_PATH, (response) => response.setHeader('x', 'a'.repeat(9_000)).end('a')),
    code: 'cloudhints-unavailable',
  },
  {
    name: 'a closed connection',
    cloud: 'aws',
    answers: at(ZONE_PATH, (response) => response.destroy()),
    code: 'cloudhints-unavailable',
  },
  {
    name: 'bytes that are not UTF-8',
    cloud: 'aws',
    answers: at(ZONE_PATH, (response) => response.end(Buffer.of(0xff))),
    code: 'cloudhints-answer-invalid',
  },
  { name: 'a login page', cloud: 'aws', answers: at(ZONE_PATH, '<html>'), code: 'cloudhints-answer-invalid' },
  {
    name: 'a zone that adds a flag of the kubelet',
    cloud: 'aws',
    answers: at(ZONE_PATH, 'a" --register-node=false'),
    code: 'cloudhints-answer-invalid',
  },
  {
    name: 'a zone that adds a label',
    cloud: 'aws',
    answers: at(ZONE_PATH, 'a,node-role.kubernetes.io/control-plane='),
    code: 'cloudhints-answer-invalid',
  },
  {
    name: 'an address that is a name',
    cloud: 'aws',
    answers: at('GET /latest/meta-data/local-ipv4', 'n1.example.org'),
    code: 'cloudhints-answer-invalid',
  },
  {
    name: 'a zone of another format',
    cloud: 'gcp',
    answers: { ...GCP, 'GET /computeMetadata/v1/instance/zone': 'us-central1-a' },
    code: 'cloudhints-answer-invalid',
  },
  { name: 'an empty object', cloud: 'azure', answers: azure('{}'), code: 'cloudhints-answer-invalid' },
  { name: 'a list', cloud: 'azure', answers: azure('[]'), code: 'cloudhints-answer-invalid' },
  {
    name: 'deep nesting',
    cloud: 'azure',
    answers: azure('['.repeat(30_000)),
    code: 'cloudhints-answer-invalid',
  },
  {
    name: 'an object for a name',
    cloud: 'openstack',
    answers: { 'GET /openstack/2018-08-27/meta_data.json': '{"hostname":{}}' },
    code: 'cloudhints-answer-invalid',
  },
  { name: 'no answer', cloud: 'openstack', answers: {}, code: 'cloudhints-answer-invalid' },
])('readCloudHints() gives no hint after $name', async ({ cloud, answers, code }) => {
  await using bed = await machine(answers);
  expect(await bed.read(cloud)).toEqual({});
  expect(bed.codes()).toEqual([code]);
  expect(bed.service.requests).not.toContain('GET /elsewhere');
  expect(await bed.files.read(PATH, 1)).toBeUndefined();
});

const EVERY_REQUEST = Object.entries({ aws: AWS, azure: AZURE, gcp: GCP, openstack: OPENSTACK }).flatMap(
  ([cloud, answers]) =>
    Object.entries(answers).map(([path, right]) => ({
      cloud: cloud as 'aws' | 'azure' | 'gcp' | 'openstack',
      ...{ path, right, answers },
    })),
);

test.each(EVERY_REQUEST)(
  'readCloudHints() follows no redirect of $path on $cloud, although the answer there is right',
  async ({ cloud, path, right, answers }) => {
    const [method = ''] = path.split(' ');
    for (const code of [301, 302, 307, 308]) {
      await using bed = await machine({
        ...answers,
        [path]: (response) => response.writeHead(code, { location: '/elsewhere' }).end(),
        [`${method} /elsewhere`]: right,
        'GET /elsewhere': right,
      });
      expect(await bed.read(cloud)).toEqual({});
      expect(bed.service.requests.filter((each) => each.endsWith('/elsewhere'))).toEqual([]);
      expect(await bed.files.read(PATH, 1)).toBeUndefined();
    }
  },
);

test.each(EVERY_REQUEST)(
  'readCloudHints() ends after five seconds when $path on $cloud has no answer',
  async ({ cloud, path, answers }) => {
    await using bed = await machine({ ...answers, [path]: () => undefined });
    const clock = new FakeClock();
    const reading = bed.read(cloud, { clock });
    while (!bed.service.requests.includes(path)) await new Promise((done) => setImmediate(done));
    await clock.advance(5_000);
    expect(await reading).toEqual({});
    expect(bed.codes()).toEqual(['cloudhints-unavailable']);
  },
);

test('readCloudHints() uses no metadata that cloud-init read on another platform', async () => {
  const other = NOCLOUD_BYTES.toString().replace('"platform":"nocloud"', '"platform":"lxd"');
  await using bed = await machine({}, { [INSTANCE_DATA]: other });
  expect(await bed.read('nocloud')).toEqual({});
});

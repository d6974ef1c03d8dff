import { afterEach, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { closeOpened, opened } from '../testing/index.ts';
import { readMemberGauges } from './metrics.ts';

afterEach(closeOpened);

const GAUGES = [
  'etcd_mvcc_db_total_size_in_bytes 4096',
  'etcd_server_quota_backend_bytes 1e6',
  'etcd_server_has_leader 1',
  'etcd_server_is_leader 0',
].join('\n');

/** A member with this health page. @returns the URL of its metrics */
async function serveMember(health: string): Promise<string> {
  const server = createServer((request, response) =>
    response.end(request.url === '/metrics' ? GAUGES : health),
  );
  opened(server);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`;
}

test.each([
  { name: 'no alarm', health: '{"health":"true","reason":""}', want: { isFull: false, isCorrupt: false } },
  {
    name: 'NOSPACE',
    health: '{"health":"false","reason":"ALARM NOSPACE"}',
    want: { isFull: true, isCorrupt: false },
  },
  {
    name: 'CORRUPT',
    health: '{"health":"false","reason":"ALARM CORRUPT"}',
    want: { isFull: false, isCorrupt: true },
  },
])('readMemberGauges() reads the alarm of a member: $name', async ({ health, want }) => {
  const { signal } = new AbortController();
  expect(await readMemberGauges(await serveMember(health), signal)).toEqual({
    ...{ dbSizeBytes: 4096, quotaBytes: 1_000_000, hasLeader: true, isLeader: false },
    ...want,
  });
});

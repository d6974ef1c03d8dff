import { expect, test } from '@jest/globals';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { contextOf } from '../cluster/curator/fake-curator.ts';
import { askHostNames, hostFrom } from './ask-host-names.ts';

test('askHostNames() resolves each host name once, and no address', async () => {
  const context = contextOf(new MemoryFiles(), '/owner');
  const hosts = ['localhost', '192.0.2.1', '2001:db8::1', '', 'localhost', 'no-such-host.invalid'];
  const [known, unknown, ...others] = await askHostNames(context, hosts);
  expect(known).toMatchObject({ name: 'localhost', answer: { ok: true } });
  expect(known?.answer.ok === true && known.answer.value.addresses).toContain('127.0.0.1');
  expect(unknown).toMatchObject({ name: 'no-such-host.invalid', answer: { ok: false } });
  expect(others).toEqual([]);
});

test.each([
  ['https://api.prod.example:6443', 'api.prod.example'],
  ['https://[2001:db8::1]:6443', '2001:db8::1'],
  ['cp1.prod.example:9091', 'cp1.prod.example'],
  ['192.0.2.1:9091', '192.0.2.1'],
  ['[2001:db8::1]:9091', '2001:db8::1'],
])('hostFrom(%j) is %j', (address, want) => {
  expect(hostFrom(address)).toBe(want);
});

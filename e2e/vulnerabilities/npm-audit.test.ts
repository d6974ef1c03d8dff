import { expect, test } from '@jest/globals';
import { parseNpmAudit } from './npm-audit.ts';

const advisory = {
  ...{ source: 1, name: 'tar-stream', dependency: 'tar-stream', title: 'x', severity: 'high', range: '*' },
  url: 'https://github.com/advisories/GHSA-aaaa-bbbb-cccc',
};
const report = (vulnerabilities: object) => JSON.stringify({ auditReportVersion: 2, vulnerabilities });

test('parseNpmAudit() finds each vulnerability once, and none of a package that only depends on one', () =>
  expect(
    parseNpmAudit(
      report({
        'tar-stream': { name: 'tar-stream', via: [advisory, { ...advisory, range: '>1' }] },
        cluster: { name: 'cluster', via: ['tar-stream'] },
      }),
    ),
  ).toEqual([{ id: 'GHSA-aaaa-bbbb-cccc', what: 'tar-stream', where: 'package-lock.json' }]));

test('parseNpmAudit() finds nothing in a report without vulnerabilities', () =>
  expect(parseNpmAudit(report({}))).toEqual([]));

test('parseNpmAudit() refuses the answer of a registry that did not answer', () =>
  expect(() => parseNpmAudit(JSON.stringify({ message: 'request to … failed', method: 'POST' }))).toThrow(
    'npm audit: request to … failed',
  ));

test.each(['{}', '{"auditReportVersion":1,"vulnerabilities":{}}', ''])('parseNpmAudit() refuses %j', (text) =>
  expect(() => parseNpmAudit(text)).toThrow(),
);

import { expect, test } from '@jest/globals';
import { formatResults, parseJunit, withMissing } from './results.ts';

const JUNIT = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4"><testsuite name="Kubernetes e2e suite" tests="4">
  <testcase name="[SynchronizedBeforeSuite]" classname="x" status="passed" time="2"></testcase>
  <testcase name="[It] [sig-a] works &lt;1&gt; &#34;a&#34; [Conformance]" classname="x" status="passed" time="1.5"><system-err>log</system-err></testcase>
  <testcase name="[It] [sig-a] fails [Conformance]" classname="x" status="failed" time="3"><failure message="timed out&#xA;after 5 s" type="failed">a.go:1</failure></testcase>
  <testcase name="[It] [sig-a] was left out [Conformance]" classname="x" status="skipped" time="0"><skipped message="skipped"></skipped></testcase>
  <testcase name="[It] [sig-a] is optional" classname="x" status="passed" time="1"/>
</testsuite></testsuites>`;

test('parseJunit() returns the conformance specs that ran, with their failures', () => {
  expect(parseJunit(JUNIT)).toEqual([
    { name: '[sig-a] works <1> "a" [Conformance]', outcome: 'passed', seconds: 1.5, message: '' },
    { name: '[sig-a] fails [Conformance]', outcome: 'failed', seconds: 3, message: 'timed out\nafter 5 s' },
  ]);
});

test('withMissing() counts a selected spec without a result as failed', () => {
  const results = withMissing(parseJunit(JUNIT), [
    '[sig-a] fails [Conformance]',
    '[sig-a] gone [Conformance]',
  ]);
  expect(results.at(-1)).toEqual({
    name: '[sig-a] gone [Conformance]',
    outcome: 'failed',
    seconds: 0,
    message: 'did not run',
  });
  expect(results).toHaveLength(3);
});

test('formatResults() names each failed spec with the first line of its message', () => {
  expect(formatResults(parseJunit(JUNIT))).toBe(
    '✖ [sig-a] fails [Conformance]\n    timed out\n1 of 2 specs passed',
  );
});

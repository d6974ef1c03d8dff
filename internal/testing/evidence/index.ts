/**
 * Evidence for tests: real evidence from `fixtures`, and fake processors that sign whatever a case needs.
 */
export { readFixture } from './fixture.ts';
export { failedChecks, passedChecks } from './checks.ts';
export { TestAmd, type TestChipOptions, type TestReportOptions } from './amd.ts';
export { TestIntel, type TestQuoteOptions } from './intel.ts';

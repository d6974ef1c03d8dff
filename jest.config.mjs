/** Jest runs ES modules natively; TypeScript is stripped, not compiled, so line numbers stay true. */
const common = {
  rootDir: import.meta.dirname,
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '\\.ts$': '<rootDir>/.ci/jest-transform.mjs' },
  modulePathIgnorePatterns: ['<rootDir>/dist'],
};
const programs = '<rootDir>/{cli,bootstrapper,joinservice,initproto,internal,e2e,.ci}';

export default {
  maxWorkers: 2,
  // What modules of a test file leave in a worker slows its later files: each program that it starts is a copy of its memory.
  workerIdleMemoryLimit: '600MB',
  // A limit against hanging, not a measurement: the machines that run this are small and busy.
  testTimeout: 60_000,
  projects: [
    { ...common, displayName: 'unit', testMatch: [`${programs}/**/*.test.ts`] },
    // Against real parts on this machine: etcd, a software TPM.
    {
      ...common,
      displayName: 'integration',
      testMatch: [`${programs}/**/*.itest.ts`],
      testPathIgnorePatterns: ['\\.browser\\.itest\\.ts$'],
    },
    // In a real browser, which `npm run browser` installs.
    { ...common, displayName: 'browser', testMatch: [`${programs}/**/*.browser.itest.ts`] },
  ],
};

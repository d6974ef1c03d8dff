/** Jest runs ES modules natively; TypeScript is stripped, not compiled, so line numbers stay true. */
export default {
  testEnvironment: 'node',
  testMatch: ['<rootDir>/{cli,bootstrapper,joinservice,initproto,internal,e2e}/**/*.test.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '\\.ts$': '<rootDir>/.ci/jest-transform.mjs' },
  modulePathIgnorePatterns: ['<rootDir>/dist'],
  maxWorkers: 2,
};

"""The lemmas of Appendices B and C."""

from dataclasses import replace

from featureprism.papers.feature_averaging.appendix import APPENDIX

TINY = {
    APPENDIX.id: [
        replace(APPENDIX.settings("quick")[0], dim=100, points=40, steps=10, step_size=0.03, test_points=1)
    ]
}

"""v1's tools around training: images and their batches (`image_util`, `image_multiproc`, `preprocess_img`,
`preprocess_util`), curves of a log (`plotcurve`), a network as text or picture (`dump_config`, `make_model_diagram`).
"""
